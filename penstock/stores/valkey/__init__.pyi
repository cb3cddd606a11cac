from penstock.stores.valkey.state import ValkeyState as ValkeyState
