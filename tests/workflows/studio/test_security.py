"""Who may talk to the studio: other sites, other names, other content types, and nobody without the token."""

from __future__ import annotations

import json
import re

import httpx
import pytest

RUN = {"workflow": "w1", "input": {"kind": "text", "text": "hello"}}


def kind(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["kind"]


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "", "localhost:80:80", "127.0.0.1@evil", "192.168.1.5", "x" * 5000],
)
@pytest.mark.parametrize("path", ["/", "/api/workflows", "/page/style.css"])
def test_a_name_that_points_here_is_refused(served, host, path):
    assert kind(served.http.get(path, headers={"host": host})) == (403, "host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:7374", "127.0.0.1:1", "[::1]:80", "127.0.0.1"])
def test_names_of_this_machine_are_answered(served, host):
    assert served.http.get("/api/workflows", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1", "file://"]
)
def test_a_page_of_another_site_can_neither_post_nor_read(served, origin):
    before = served.get("/api/runs")
    for method, path in (
        ("POST", "/api/runs"),
        ("GET", "/api/workflows"),
        ("DELETE", "/api/runs"),
        ("POST", "/api/files"),
    ):
        answer = served.http.request(method, path, json=RUN, headers={"origin": origin})
        assert kind(answer) == (403, "origin")
        assert not any(name.startswith("access-control") for name in answer.headers)
    assert served.get("/api/runs") == before


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_browser_that_says_the_request_is_from_elsewhere_is_refused(served, site):
    for path in ("/api/workflows", "/api/events", "/page/style.css"):
        assert kind(served.http.get(path, headers={"sec-fetch-site": site})) == (403, "origin")
    image = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
    assert kind(served.http.get("/", headers=image)) == (403, "origin")
    link = {"sec-fetch-site": site, "sec-fetch-mode": "navigate"}
    assert served.http.get("/", headers=link).status_code == 200


@pytest.mark.parametrize(
    "type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "application/jsonx"],
)
def test_a_body_that_a_form_could_send_is_refused(served, type):
    for path in ("/api/runs", "/api/compare", "/api/files", "/api/runs/x/cancel", "/api/workflows/w1/reload"):
        answer = served.http.post(path, content=b"{}", headers={"content-type": type})
        assert kind(answer) == (415, "content_type")


def test_a_preflight_is_not_allowed_anything(served):
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    answer = served.http.options("/api/runs", headers={"origin": "http://evil.example", **asked})
    assert answer.status_code == 403
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_the_page_may_be_answered_to_itself(served):
    answer = served.http.get("/api/workflows", headers={"origin": served.url, "sec-fetch-site": "same-origin"})
    assert answer.status_code == 200


def test_every_answer_has_the_headers_that_keep_others_out(served):
    for path in ("/", "/api/workflows", "/page/nothing.js", "/nowhere", "/api/runs/none"):
        headers = served.http.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["referrer-policy"] == "no-referrer"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]


def test_the_page_has_a_new_nonce_each_time_for_its_import_map_alone(served):
    nonces = set()
    for _ in range(2):
        answer = served.http.get("/")
        found = re.findall(r'<script type="importmap" nonce="([^"]+)">', answer.text)
        assert len(found) == 1
        assert f"'nonce-{found[0]}'" in answer.headers["content-security-policy"]
        assert "unsafe-eval" not in answer.headers["content-security-policy"]
        script = re.search("script-src ([^;]*)", answer.headers["content-security-policy"])
        assert script is not None
        assert "unsafe-inline" not in script.group(1)
        nonces.add(found[0])
    assert len(nonces) == 2


def test_modules_of_the_import_map_are_served_as_modules(served):
    found = re.search(r'<script type="importmap"[^>]*>(.*?)</script>', served.http.get("/").text)
    assert found is not None
    paths = [*json.loads(found[1])["imports"].values()]
    assert any("lit-html" in path for path in paths)
    for path in paths:
        answer = served.http.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize(
    "path",
    [
        "/page/..%2f__init__.py",
        "/page/%2e%2e/__init__.py",
        "/page/studio/..%2fapp.py",
        "/page/studio/../app.py",
        "/page//etc/passwd",
        "/page/C:%5cx.js",
        "/page/.hidden.js",
        "/page/",
        "/page/README.md",
        "/page/vendor",
        "/page/style.css%00.js",
    ],
)
def test_nothing_but_the_page_is_served(served, path):
    assert kind(served.http.get(path)) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("POST", "/", 405), ("PUT", "/api/runs", 405), ("POST", "/api/workflows", 405)],
)
def test_errors_of_routes_are_json_too(served, method, path, status):
    answer = served.http.request(method, path, json={})
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


TOKEN = "t0ken-that-is-long"


@pytest.fixture(scope="module")
def locked(tmp_path_factory, serving_studio):
    with serving_studio(tmp_path_factory.mktemp("locked"), token=TOKEN) as made:
        yield made


def cookie_of(studio) -> str:
    """Return the name of the cookie of a studio."""
    return f"penstock-studio-{httpx.URL(studio.url).port}"


class TestWithAToken:
    @pytest.mark.parametrize(
        "path",
        [
            "/",
            "/api/workflows",
            "/page/style.css",
            "/api/events",
            "/?token=",
            "/?token=wrong",
            "/api/workflows?token=t0ken-that-is-long",
        ],
    )
    def test_nothing_is_answered_without_it(self, locked, path):
        assert kind(locked.http.get(path)) == (401, "token")

    @pytest.mark.parametrize("header", ["Bearer wrong", "Bearer", "Basic t0ken-that-is-long", "t0ken-that-is-long"])
    def test_a_wrong_one_is_refused(self, locked, header):
        assert kind(locked.http.get("/api/workflows", headers={"authorization": header})) == (401, "token")

    @pytest.mark.parametrize("cookie", ["{}=wrong", f"x={TOKEN}", f"penstock-studio={TOKEN}", "[]=;;,", "{}=\xff"])
    def test_a_wrong_cookie_is_refused(self, locked, cookie):
        cookie = cookie.format(cookie_of(locked))
        answer = locked.http.get("/api/workflows", headers={"cookie": cookie.encode("latin-1")})
        assert kind(answer) == (401, "token")

    def test_a_program_sends_it_as_a_header(self, locked):
        answer = locked.http.get("/api/workflows", headers={"authorization": f"bearer {TOKEN}"})
        assert answer.status_code == 200

    def test_the_url_moves_it_into_a_cookie_that_scripts_cannot_read(self, locked):
        answer = locked.http.get("/", params={"token": TOKEN, "run": "a b"})
        assert answer.status_code == 303
        assert answer.headers["location"] == "/?run=a+b"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert "Path=/" in cookie
        value = cookie.split(";")[0]
        assert locked.http.get("/", headers={"cookie": value}).status_code == 200
        locked.http.cookies.clear()

    @pytest.mark.parametrize("other", ['seen={"a":1}', "a b=c", "x[y]=1", "plain"])
    def test_cookies_of_other_programs_on_the_host_do_not_hide_it(self, locked, other):
        cookie = f"{other}; {cookie_of(locked)}={TOKEN}; {other}"
        assert locked.http.get("/api/workflows", headers={"cookie": cookie}).status_code == 200

    def test_a_browser_that_signs_in_to_two_studios_of_one_host_stays_signed_in_to_both(
        self, locked, tmp_path, serving_studio
    ):
        """Cookies belong to a host, not to a port, so each studio has its own name for its cookie."""
        other = TOKEN[::-1]
        with serving_studio(tmp_path, token=other) as second, httpx.Client() as browser:
            for studio, token in ((locked, TOKEN), (second, other)):
                assert browser.get(studio.url, params={"token": token}).status_code == 303
            for studio in (locked, second):
                assert browser.get(f"{studio.url}/api/workflows").status_code == 200

    @pytest.mark.parametrize("host", ["localhost", "[::1]"])
    def test_behind_a_proxy_at_the_default_port_its_name_has_no_port(self, locked, host):
        """A browser leaves the default port out of `Host`."""
        answer = locked.http.get("/", params={"token": TOKEN}, headers={"host": host})
        assert answer.headers["set-cookie"].startswith(f"penstock-studio={TOKEN};")
        headers = {"host": host, "cookie": f"penstock-studio={TOKEN}"}
        assert locked.http.get("/api/workflows", headers=headers).status_code == 200
        locked.http.cookies.clear()

    def test_a_page_of_another_site_is_refused_with_it_too(self, locked):
        headers = {"authorization": f"Bearer {TOKEN}", "origin": "http://evil.example"}
        assert kind(locked.http.get("/api/workflows", headers=headers)) == (403, "origin")


def test_beyond_loopback_addresses_and_given_names_are_answered(tmp_path, serving_studio):
    settings = {"host": "0.0.0.0", "allowed_hosts": ("studio.example",), "token": "t"}  # noqa: S104 - nothing listens there
    with serving_studio(tmp_path, **settings) as made:
        for host, status in (
            ("192.168.1.5:99", 200),
            ("studio.example", 200),
            ("Studio.Example:1", 200),
            ("evil.example", 403),
        ):
            answer = made.http.get("/api/workflows", headers={"host": host, "authorization": "Bearer t"})
            assert answer.status_code == status, host


def test_a_name_that_no_file_can_have_is_not_found(served):
    assert kind(served.http.get(f"/page/{'a' * 300}.js")) == (404, "not_found")
