"""Words that tell a phone number from other numbers, in the languages that people write to models in.

There are words for phones and for calling (`PHONE`), for contacts (`CONTACT`), for any number (`NUMBER`), and for other
things that have numbers (`OTHER`). Words that stand behind a number are `BEHIND`. All but these are searched in small
letters, since patterns that ignore the case are several times slower. Words that only stand at the beginning of a word
come last, so most places in a text need not try them.
"""

from __future__ import annotations

from penstock.detection.deferred import deferred
from penstock.detection.patterns.kinds import DASH

# What may stand within a word, then what stands at its beginning.
SYMBOLS = "\u260e\u260f\u2706\U0001f4de\U0001f4f1\U0001f57b"
"""Signs of phones."""

_NOUNS = (
    rf"(?<!head)(?<!micro)(?<!mega)(?<!i)(?<!gramo)phone(?:[ -]line\b)?|[{SYMBOLS}]|whats[ -]?app|msisdn"
    r"|puhelin|điện[ -]thoại|di động|телефон|сотов|τηλ|κινητ|फ़?ोन|फोन|मोबाइल|दूरभाष|هاتف|جوال|موبايل"
    r"|تلفون|واتساب|تلفن|موبایل|טלפון|נייד|פלאפון|电话|電話|手机|手機|热线|熱線|传真|傳真|携帯|ケータイ|ファックス|전화|휴대폰|핸드폰|팩스|โทร|เบอร์"
    r"|มือถือ"
)
_NOUNS_WORDS = (
    r"tel[eé:.=\s](?!gra|vis|met|por|sco)|t[eé]l[eé]?f|t(?:el|él|lf|fno)\b|sms\b|fax\b|mobi(?:le|el)\b|mobil(?!it)"
    r"|cell?(?:\.|\b)|cell(?:phone|ular)|landline|hotline|desk\b|fone|fon\b|fono\b|natel|celu\b|mob\b|ph\b(?:[.:]| $)"
    r"|kom\.|portable\b|t[eé]l[eé]copie|m[oó]vil\b|celular|telem[oó]vel|gsm\b|handy|durchwahl|festnetz|komórk"
    r"|ruf[ .-]{0,2}n(?:r|umm)|puh\b|sími|símanúmer|cep\b"
    r"|ponsel|telepon|no(?:mor|mer)?\.?[ -]?hp\b|sđt\b|тел\b|моб(?:\b|ил|іл)"
    r"|caller[ -]?id\b|callback\b(?!\()|rückruf"
)
# Calling, and whose number it is.
_CALLS = (
    r"answering (?:at|on)|receiving (?:calls|messages|texts)|my registered|reach[ -](?:me|us|him|her)"
    r"|contact[ -](?:number|no)|звон|дзвон|καλέσ|कॉल|اتصل|تماس"
    r"|התקשר|לחייג|致电|致電|拨打|撥打|मेरा नंबर|(?<![^\W的の])(?:번호[는은]|号码是|號碼是|番号は)"
)
_CALLS_WORDS = (
    r"call(?:ed|ing|s)?\b(?!\()|dial(?:l?ed|l?ing)?\b|ring (?:me|us|him|her|at|on|mig|meg|oss)\b|ring $"
    r"|text[ -](?:me|us|him|her)\b|(?:my|his|her|our|your|their) (?:#|(?:(?!id|po)[a-z]{2} )?number)"
    r"|r?appel(?:er|ez|ons|le|é|ée)\b|joindre\b|joignable|compose[rz]\b"
    r"|ll[aá]m(?:ar|a|e|ame|eme|en|enos|anos|ada)\b|marcar\b|marque\b|chiam(?:are|a|i|ami|ate|ateci|ata|ando)\b"
    r"|cellulare|recapito|lig(?:ar|ue|uem|ação|ou)\b|bel(?:len|t|de)?\b|gebeld\b|bereikbaar|anruf|angerufen"
    r"|rufen?\b|erreich(?:bar|en)\b|(?:za|od|prze)?dzwo[nń]|ring(?:a|er|e)\b|soit(?:a|taa|taisi)"
    r"|(?:za)?vol(?:ej|at|ejte)\b|hív(?:j|hat|ás)|suna[țţt]i|arayın|arayabil|irtibat|hubungi|gọi\b"
    r"|(?:mi|su|tu|mon|ton|son|votre|mio|tuo|suo|meu|seu|mijn|jouw|uw|meine?|deine?|ihre?|mitt|m[óo]j|moje?|můj"
    r"|мо[йі]|ваш) (?:n[uú]mero|num[eé]ro|nummer|numer|číslo|номер)"
)

PHONE = deferred(rf"{_NOUNS}|{_CALLS}|\b(?:{_NOUNS_WORDS}|{_CALLS_WORDS})")
"""Words for phones and for calling."""

CLOSE = deferred(rf"(?:{_NOUNS}|\b(?:{_NOUNS_WORDS}))[^\d\n]{{0,12}}$")
"""A word for a phone close before a number; few digits need one."""

NUMBER = deferred(
    r"(?<![^\W的の])(?:num[eé]ro|n[úu]mero|nummer|čísl|număr|номер|αριθμ|नंबर|رقم|شماره|מספר|号码|號碼|番号|번호"
    r"|numer(?:u|em)?\b|(?<![^\W\d_]\.-)(?<![^\W\d_]\. )(?<![^\W\d_][.-])nr\b|szám|numara|nomor|số\b)"
)
"""Words for any number, but not within one for another: they explain one that looks like a phone's.

*Nr.* behind another short word, as in *Art.-Nr.*, is the number of that.
"""

CONTACT = deferred(r"\b(?:contact|emergency|(?:notfall)?kontakt|contatt|contato)|संपर्क|联系|聯繫|聯絡|連絡|연락")
"""Words for contacts: they explain one that is as long as a phone's."""

_KINDS = (
    r"office|fax|mobile|cell|home|work|desk|bureau|domicile|portable|fixe|oficina|casa|trabajo|m[oó]vil|celular|ufficio"
    r"|cellulare|escrit[oó]rio|telem[oó]vel|kantoor|thuis|mobiel|b[uü]ro|privat|gesch[aä]ftlich|dienstlich|mobil|handy"
    r"|dom|praca|kom|koti|ev|iş|cep|fijo|fisso|fixo|stacjonarny|festnetz|landline|direct|main|vast"
)

BEHIND = deferred(
    rf"(?i)(?=[ \t,{DASH}(]{{0,4}}[^\W\d])"  # most numbers have no word there
    rf"(?:[ \t,{DASH}]{{0,3}}\(?(?:{_KINDS})\b"
    r"|,? (?:is my|ist meine|es mi|est mon|è il mio|é (?:o )?meu|is mijn|to mój|это мой|- мой) (?:n[uú]m|num[eé]r|номер"
    r"|phone|cell|mobil)|是我的(?:手机|号码|电话)"
    r"|[ \t,]{0,2}(?:erreichbar|anrufen|erreichen|bellen|bereikbaar|numaralı|numaradan|पर (?:कॉल|संपर्क)"
    r"|(?:に|へ|まで)?(?:お?電話|ご?連絡)|(?:으로|로) ?(?:전화|연락)))"
)
"""What explains a number from behind."""

BEHIND_WIDTH = 24
"""How many characters behind a number such a word ends at most."""

KIND = deferred(rf"(?i)\b(?:{_KINDS})\W*\Z")
"""The name of a kind of phone, right before a number."""

_UNITS = (
    r"[kmgtp]i?b|bytes?|bits?|ns|µs|us|ms|secs?|seconds?|minutes?|hours?|days?|px|pixels?|dpi|ppi|points?|pts|rows?"
    r"|records?|items?|files?|lines?|tokens?|params|parameters|users?|people|views?|visits?|hits|clicks?|requests?"
    r"|times|cycles|blocks?|pages?|words|usd|eur|gbp|chf|jpy|inr|dollars|euros?|hz|khz|mhz|kg|km|zeilen|lignes|filas|stück"
)
UNIT = deferred(
    rf"(?:[.,]\d\d?)?[ \u00a0\u202f]?(?:(?:{_UNITS}|[KMGT]i?B|Bytes|Hz|[kMG]Hz|USD|EUR|GBP|CHF|JPY|INR)\b|[€$£%])"
)
"""Units of what is counted or measured, behind a number."""

MEASURE = deferred(r"\b(?:offset|delta|change|growth|lat|lon|long|latitude|longitude|coordinates?)\b[\W_]{0,4}$")
"""Names of measures that may have a plus sign, right before a number."""

NEAR = 24
"""Within how many characters before a number words for other things stand close."""

_HAS_VALUE = r"""["']?\s*[:=]\s*(?:"[^"\n]*"|'[^'\n]*'|[^\W\d]\w*[,;])"""
"""What stands behind a name in code or data that has got its value: digits behind that are another's."""

_OTHERS = (
    r"account|acct|a/c|order|invoice|isbn|issn|doi|tracking|ticket|ref(?:erence)?|serial|transaction"
    r"|time ?stamp|unix|epoch|case|policy|routing|passport|licen[cs]e|patent|version|sku|upc|ean|gtin|imei|vin|npi|tin"
    r"|ein|vat|tax|bank|iban|card|population|revenue|usd|eur|gbp|seed|port|pid|uid|hash|total|price|cost|amount"
    r"|budget|slot|otp|ids?|bytes|size|offset|checksum|p/n|awb|b/l|(?:air )?waybill"
    r"|(?:part|po|lot|batch|model|deal|run|job|build|item|product|article|booking|reservation|confirmation|shipment"
    r"|parcel|claim|contract|catalog(?:ue)?)[ -]?(?:no|num(?:ber)?|nr|id|[#:.])"
)
OTHER = deferred(rf"(?:\b(?:{_OTHERS})|-(?:id|key|code|slot))(?!\w)(?!{_HAS_VALUE})[^\n]{{0,14}}$")
"""English words for other things that have numbers, close before one."""

_OTHERS_THAN_ENGLISH = (
    r"\b(?:dni|nie|nif|cpf|cnpj|bsn|kvk|btw|nip|pesel|regon|tva|siren|siret|инн|снилс|conto|conta|konto|tili|carte)\b"
    r"|compte|commande|facture|dossier|contrat|passeport|cuenta|pedido|factura|expediente|tarjeta|ordine|fattura"
    r"|n[uú]m[eé]ro (?:de |di )?(?:client|s[eé]rie|lot)|codice|partita iva|fatura|cartão|rekening|bestel|factuur"
    r"|klantn|kundenn|rechnung|auftragsn|steuer|vertragsn|versicherungsn|aktenzeichen|zamówieni|faktur|beställ|bestill"
    r"|personnummer|tilaus|lasku|hesap|sipariş|kimlik|сч[её]т|заказ|паспорт|договор|订单|訂單|账号|帐号|帳號|身份证|卡号"
    r"|编号|編號|注文|口座|会員|주문|계좌|주민"
)
_THINGS = (
    r"customer|client|member|subscriber|employee|staff|student|vendor|supplier|meter|counter|device|asset|inventory|inv"
    r"|award|grant|docket|regist|permit|certificate|voucher|coupon|gift|che(?:que|ck)|machine|engine|chassis|vehicle|plate"
    r"|seat|room|gate|bus|train|route|unit|apartment|lot|plot|section|article|clause|edition|volume|issue|page|instrument"
    r"|sample|specimen|test|lab|protocol|study|trial|patent|form|model|style|color|stock"
    r"|art|best|teile?|kd|kunden?|re|rechn|auftr|vertr|vers|policen?|mitgl|ser|send|paket|lief|zähler|gerät|inventar"
    r"|raum|zimmer|platz|sitz|wagen|zug|linien?|flur|akten|vorg|fall|beleg|buchungs?|konto|kto|karten?|ausweis|pers|matr"
    r"|stamm|chargen?|los|modell|typ|fabrik|fahrgest|motor|zoll|zert|prüf|labor|proben?|steuer|haus"
    r"|klant|bestel|factuur|ordre?|artikel|lid|medlem|kund|faktura|varu|tilaus|asiakas|jäsen|sarja|tuote"
)
_NUMBERED = (
    rf"\b(?:{_THINGS})[^\W\d_]{{0,14}}(?:nummern?|numero|nr\b"
    r"|(?:[.-]{1,2}|\.?[ ])(?:nr|no|num|n[°º]|number|nummer)\b)"
)
NUMBERED = deferred(rf"{_NUMBERED}(?!\w)(?!{_HAS_VALUE})[^\n\d]{{0,6}}$")
"""The number of a thing, right before one: its name with *number* behind it."""

OTHER_THAN_ENGLISH = deferred(rf"(?:{_OTHERS_THAN_ENGLISH})[^\n]{{0,14}}$")
"""The same in other languages."""

CODE = deferred(r"\b(?:codes?|pins?|otps?|zip|plz|password|passcode|token|verification|times|users|people)\b")
"""Words for short numbers that are no phone's."""

OTHER_CLOSER = deferred(
    rf"\b(?:{_OTHERS}|{_UNITS}|codes?|pins?|zip|plz|password|passcode|token|verification|count|max|min|limit|part|po|lot"
    r"|batch|model|deal|run|job|build|item|product|duration|sessions?|downloads?|installs?|length|row|since|date)\b"
    rf"|-(?:id|key|code|at|ts|ext|type)\b(?!{_HAS_VALUE})|\bnumber of\b|{_OTHERS_THAN_ENGLISH}"
)
"""Words for other things, between a word for a phone and digits that need one."""
