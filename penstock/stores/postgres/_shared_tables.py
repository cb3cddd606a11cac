"""The tables and functions of what replicas share: costs, texts with leases, names, rate limits, circuits.

A function does a change whole, in one statement, and goes by the server's clock. Changes of one budget wait for each
other (an advisory lock until the transaction ends). Amounts are whole millionths, times are seconds since 1970.
"""

from __future__ import annotations

_LEDGER = """
    CREATE TABLE {schema}.ledger_held (
        key text COLLATE "C" NOT NULL,
        holder text COLLATE "C" NOT NULL,
        amount bigint NOT NULL,
        until double precision NOT NULL,
        PRIMARY KEY (key, holder)
    );
    CREATE TABLE {schema}.ledger_spent (
        key text COLLATE "C" NOT NULL,
        width integer NOT NULL,
        start bigint NOT NULL,
        model text COLLATE "C" NOT NULL,
        amount bigint NOT NULL,
        PRIMARY KEY (key, width, start, model)
    );
    CREATE TABLE {schema}.ledger_names (
        key text COLLATE "C" NOT NULL,
        name text COLLATE "C" NOT NULL,
        at double precision NOT NULL,
        amount bigint NOT NULL DEFAULT 0,
        PRIMARY KEY (key, name)
    );
    CREATE INDEX ledger_names_by_time ON {schema}.ledger_names (key, at);

    CREATE FUNCTION {schema}.ledger_since(_window text, _at double precision) RETURNS double precision
    LANGUAGE sql STABLE AS $$
        SELECT CASE
            WHEN _window = 'ever' THEN NULL
            WHEN _window IN ('day', 'week', 'month')
                THEN extract(epoch FROM date_trunc(_window, to_timestamp(_at) AT TIME ZONE 'UTC'))
            ELSE _at - _window::double precision
        END
    $$;

    CREATE FUNCTION {schema}.ledger_spend(_key text, _model text, _cost bigint, _at double precision) RETURNS void
    LANGUAGE plpgsql AS $$
    DECLARE
        _level record;
    BEGIN
        INSERT INTO {schema}.ledger_spent AS kept VALUES (_key, 1, floor(_at)::bigint, _model, _cost)
        ON CONFLICT (key, width, start, model) DO UPDATE SET amount = kept.amount + excluded.amount;
        FOR _level IN
            SELECT * FROM (VALUES (1, 120, 60), (60, 28800, 3600), (3600, 691200, 86400))
                AS levels (width, keeps, wider)
        LOOP
            WITH old AS (
                DELETE FROM {schema}.ledger_spent AS s
                WHERE s.key = _key AND s.width = _level.width
                    AND s.start < floor((_at - _level.keeps) / _level.wider) * _level.wider
                RETURNING s.start, s.model, s.amount
            )
            INSERT INTO {schema}.ledger_spent AS kept
            SELECT _key, _level.wider, old.start - old.start % _level.wider, old.model, sum(old.amount)
            FROM old GROUP BY 3, 4
            ON CONFLICT (key, width, start, model) DO UPDATE SET amount = kept.amount + excluded.amount;
        END LOOP;
    END $$;

    CREATE FUNCTION {schema}.ledger_open(_key text, _unsettled text) RETURNS double precision
    LANGUAGE plpgsql AS $$
    DECLARE
        _at double precision;
        _lost bigint;
    BEGIN
        PERFORM pg_advisory_xact_lock(hashtextextended('{schema}' || _key, 0));
        _at := extract(epoch FROM clock_timestamp());
        WITH gone AS (
            DELETE FROM {schema}.ledger_held AS h WHERE h.key = _key AND h.until <= _at RETURNING h.holder, h.amount
        ), noted AS (
            INSERT INTO {schema}.ledger_names (key, name, at, amount)
            SELECT _key, 'x:' || gone.holder, _at, gone.amount FROM gone
            ON CONFLICT (key, name) DO UPDATE SET at = excluded.at, amount = excluded.amount
        )
        SELECT sum(gone.amount) INTO _lost FROM gone;
        IF _lost > 0 THEN
            PERFORM {schema}.ledger_spend(_key, _unsettled, _lost, _at);
        END IF;
        RETURN _at;
    END $$;

    CREATE FUNCTION {schema}.ledger_reserve(
        _key text, _holder text, _cost bigint, _limit bigint, _window text, _lease double precision, _unsettled text,
        OUT spent bigint, OUT held bigint, OUT granted boolean
    ) LANGUAGE plpgsql AS $$
    DECLARE
        _at double precision := {schema}.ledger_open(_key, _unsettled);
        _since double precision := {schema}.ledger_since(_window, _at);
    BEGIN
        DELETE FROM {schema}.ledger_held AS h WHERE h.key = _key AND h.holder = _holder;
        DELETE FROM {schema}.ledger_names AS n WHERE n.key = _key AND n.name = 'x:' || _holder;
        SELECT coalesce(sum(s.amount), 0) INTO spent FROM {schema}.ledger_spent AS s
        WHERE s.key = _key AND (_since IS NULL OR s.start + s.width > _since);
        SELECT coalesce(sum(h.amount), 0) INTO held FROM {schema}.ledger_held AS h WHERE h.key = _key;
        granted := spent + held < _limit AND spent + held + _cost <= _limit;
        IF granted AND _cost > 0 THEN
            INSERT INTO {schema}.ledger_held VALUES (_key, _holder, _cost, _at + _lease);
        END IF;
    END $$;

    CREATE FUNCTION {schema}.ledger_settle(
        _key text, _charge text, _cost bigint, _model text, _holder text, _unsettled text, _kept double precision
    ) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        _at double precision := {schema}.ledger_open(_key, _unsettled);
        _counted bigint;
    BEGIN
        DELETE FROM {schema}.ledger_names AS n WHERE n.key = _key AND n.at < _at - _kept;
        INSERT INTO {schema}.ledger_names (key, name, at) VALUES (_key, 'c:' || _charge, _at) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        IF _holder <> '' THEN
            DELETE FROM {schema}.ledger_held AS h WHERE h.key = _key AND h.holder = _holder;
            DELETE FROM {schema}.ledger_names AS n WHERE n.key = _key AND n.name = 'x:' || _holder
            RETURNING n.amount INTO _counted;
            _cost := _cost - coalesce(_counted, 0);
        END IF;
        IF _cost > 0 THEN
            PERFORM {schema}.ledger_spend(_key, _model, _cost, _at);
        END IF;
    END $$;

    CREATE FUNCTION {schema}.ledger_release(_key text, _holder text, _unsettled text) RETURNS void
    LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM {schema}.ledger_open(_key, _unsettled);
        DELETE FROM {schema}.ledger_held AS h WHERE h.key = _key AND h.holder = _holder;
    END $$;
"""

_OTHERS = """
    CREATE UNLOGGED TABLE {schema}.shared_texts (
        key text COLLATE "C" PRIMARY KEY,
        value text NOT NULL,
        until timestamptz
    );
    CREATE INDEX shared_texts_by_end ON {schema}.shared_texts (until);
    CREATE UNLOGGED TABLE {schema}.shared_leases (
        key text COLLATE "C" PRIMARY KEY,
        holder text COLLATE "C" NOT NULL,
        until timestamptz NOT NULL
    );
    CREATE UNLOGGED TABLE {schema}.shared_names (
        owner text COLLATE "C" PRIMARY KEY,
        names text[] NOT NULL,
        until timestamptz
    );
    CREATE UNLOGGED TABLE {schema}.rate_limits (
        key text COLLATE "C" PRIMARY KEY,
        full_at double precision NOT NULL
    ) WITH (fillfactor = 50);
    CREATE UNLOGGED TABLE {schema}.circuits (
        key text COLLATE "C" PRIMARY KEY,
        opened double precision,
        failures double precision[] NOT NULL
    ) WITH (fillfactor = 50);

    CREATE FUNCTION {schema}.lease_take(_key text, _holder text, _seconds double precision) RETURNS text
    LANGUAGE plpgsql AS $$
    DECLARE
        _now timestamptz := clock_timestamp();
        _found text;
    BEGIN
        INSERT INTO {schema}.shared_leases AS l VALUES (_key, _holder, _now + _seconds * interval '1 second')
        ON CONFLICT (key) DO UPDATE SET holder = excluded.holder, until = excluded.until WHERE l.until <= _now;
        IF FOUND THEN
            RETURN 'lead';
        END IF;
        SELECT l.holder INTO _found FROM {schema}.shared_leases AS l WHERE l.key = _key;
        RETURN CASE WHEN _found = _holder THEN 'lead' WHEN _found = '' THEN 'ask' ELSE 'wait' END;
    END $$;

    CREATE FUNCTION {schema}.rate_take(_key text, _interval double precision, _burst double precision)
    RETURNS double precision LANGUAGE plpgsql AS $$
    DECLARE
        _now double precision := extract(epoch FROM clock_timestamp());
    BEGIN
        INSERT INTO {schema}.rate_limits AS r VALUES (_key, _now + _interval)
        ON CONFLICT (key) DO UPDATE SET full_at = greatest(r.full_at, _now) + _interval
        WHERE greatest(r.full_at, _now) + _interval - _now <= _burst + 0.000001;
        IF FOUND THEN
            RETURN 0;
        END IF;
        RETURN (
            SELECT greatest(greatest(r.full_at, _now) + _interval - _now - _burst, 0.001)
            FROM {schema}.rate_limits AS r WHERE r.key = _key
        );
    END $$;

    CREATE FUNCTION {schema}.circuit_ask(
        _key text, _failed boolean, _most integer, _within double precision, _pause double precision
    ) RETURNS boolean LANGUAGE plpgsql AS $$
    DECLARE
        _now double precision;
        _opened double precision;
        _failures double precision[];
        _may boolean := true;
    BEGIN
        IF _failed THEN
            INSERT INTO {schema}.circuits VALUES (_key, NULL, '{}') ON CONFLICT DO NOTHING;
        END IF;
        SELECT c.opened, c.failures INTO _opened, _failures FROM {schema}.circuits AS c WHERE c.key = _key FOR UPDATE;
        IF NOT FOUND THEN
            RETURN true;
        END IF;
        _now := extract(epoch FROM clock_timestamp());
        SELECT coalesce(array_agg(at ORDER BY at), '{}') INTO _failures
        FROM unnest(_failures) AS at WHERE at >= _now - _within;
        IF _now - _opened >= _pause AND cardinality(_failures) = 0 THEN
            _opened := NULL;
        END IF;
        IF _failed THEN
            _failures := (_failures || _now)[greatest(1, cardinality(_failures) + 2 - _most):];
        END IF;
        IF _opened IS NULL THEN
            IF _failed AND cardinality(_failures) >= _most THEN
                _opened := _now;
                _may := false;
            END IF;
        ELSIF _now - _opened < _pause THEN
            _may := false;
        ELSE
            _opened := _now;
        END IF;
        UPDATE {schema}.circuits AS c SET opened = _opened, failures = _failures WHERE c.key = _key;
        RETURN _may;
    END $$;
"""

SHARED = (_LEDGER, _OTHERS)
"""What was spent lies in buckets of time, which become wider with age: seconds for two minutes, minutes for 8 hours,
hours for 8 days, then days. ``ledger_names`` holds names of settled amounts (``c:``) and of reservations that expired
(``x:``). All tables but those of costs are unlogged: a crash of the server empties them, and what they held is made
again."""
