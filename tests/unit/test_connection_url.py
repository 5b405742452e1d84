"""Addresses of state servers: every form that is read, every form that is refused, and what may be shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maestro_state.errors import ConfigError
from maestro_state.net import Address, masked, parse_url

READ = {
    "redis://localhost": Address("redis", (("localhost", 6379),)),
    "REDIS://localhost": Address("redis", (("localhost", 6379),)),
    "redis://h:7000/3": Address("redis", (("h", 7000),), db=3),
    "redis://h?db=3&timeout=0.5": Address("redis", (("h", 6379),), db=3, timeout_s=0.5),
    "redis://:pw@h": Address("redis", (("h", 6379),), password="pw"),
    "redis://ana@h": Address("redis", (("h", 6379),), username="ana"),
    "redis://ana:p%40s%2Fs%3A%25@h:1/0": Address("redis", (("h", 1),), username="ana", password="p@s/s:%"),
    "redis://ana:p@s/s@h:1": Address("redis", (("h", 1),), username="ana", password="p@s/s"),
    "redis://[::1]:7000/1": Address("redis", (("::1", 7000),), db=1),
    "redis://[fe80::1]": Address("redis", (("fe80::1", 6379),)),
    "rediss://h?ssl_ca_certs=/a%20b.pem&ssl_check_hostname=false": Address(
        "rediss", (("h", 6379),), tls=True, ssl_ca_certs="/a b.pem", ssl_check_hostname=False
    ),
    "unix:///run/a@b/s.sock": Address("unix", path="/run/a@b/s.sock"),
    "unix://:pw@/run/s.sock?db=2": Address("unix", path="/run/s.sock", password="pw", db=2),
    "unix:///with%20space": Address("unix", path="/with space"),
    "redis+sentinel://u:p@a:1,b,[::1]:3/mymaster/4?sentinel_password=q": Address(
        "redis+sentinel",
        (("a", 1), ("b", 26379), ("::1", 3)),
        username="u",
        password="p",
        db=4,
        service="mymaster",
        sentinel_password="q",
    ),
    "redis+cluster://a:1,b:2,c?ssl=true": Address("redis+cluster", (("a", 1), ("b", 2), ("c", 6379)), tls=True),
}

REFUSED = {
    "": "scheme",
    "localhost:6379": "scheme",
    "http://h": "scheme 'http'",
    "redis://": "no host",
    "redis://:6379": "no host",
    "redis://u:s3cret@": "no host",
    "redis://h:port": "port",
    "redis://h:0": "port",
    "redis://h:65536": "port",
    "redis://h:-1": "port",
    "redis://[::1": "IPv6",
    "redis://[::1]x": "IPv6",
    "redis://h/x": "database",
    "redis://h/-1": "database",
    "redis://h?colour=red": "option 'colour'",
    "redis://h?ssl_ca_certs=/x": "option 'ssl_ca_certs'",
    "redis://h?timeout=soon": "timeout",
    "redis://h?timeout=0": "timeout",
    "redis://h?timeout=nan": "timeout",
    "rediss://h?ssl_check_hostname=maybe": "ssl_check_hostname",
    "unix://": "path",
    "unix:///": "path",
    "unix://relative/path": "path",
    "redis+sentinel://h": "name of the master",
    "redis+sentinel://h,,i/m": "no host",
    "redis+cluster://h/1": "no database",
    "redis+cluster://": "no host",
    "redis+cluster://h?db=1": "option 'db'",
}


@pytest.mark.parametrize("text", READ)
def test_read(text):
    """Every documented form is read into the address it means."""
    assert parse_url(text) == READ[text]


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text):
    """What is not an address is refused with the reason."""
    with pytest.raises(ConfigError, match=REFUSED[text]):
        parse_url(text)


@pytest.mark.parametrize("text", READ)
def test_masked_address_leads_to_the_same_place(text):
    """What is shown of an address still names the server, without the password."""
    address = parse_url(text)
    shown = masked(address)
    assert shown == masked(text)
    again = parse_url(shown)
    assert (again.hosts, again.path, again.db, again.service) == (
        address.hosts,
        address.path,
        address.db,
        address.service,
    )
    assert again.password in (None, "***")


@pytest.mark.parametrize(
    "text",
    [
        "redis://u:s3cret@",
        "redis://u:s3cret@h:port",
        "redis://u:s3/s3cret@h:port",
        "redis://u:1?s3cret@h",
        "redis://u:1?x=1&s3cret@h",
        "redis://u:1#s3cret@h:port",
        "redis://u:s3cret/h",
        "redis://u:s3cret",
        "redis://s3cret@h:port",
        "redis://h?s3cret=1@",
        "redis+sentinel://h?sentinel_password=s3cret",
        "unix://u:s3cret@relative",
        "mysql://u:s3cret@h",
        "s3cret",
    ],
)
def test_refusal_never_repeats_a_password(text):
    """No refusal and no masked text contains a password, however malformed the address is."""
    with pytest.raises(ConfigError) as refused:
        parse_url(text)
    assert "s3cret" not in f"{refused.value} {refused.value.hint} {refused.value!r}"
    assert "s3cret" not in masked(text)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(rest):
    """Any text at all is either an address or a ConfigError, and can be masked."""
    for text in (rest, f"redis://{rest}", f"unix://{rest}", f"redis+sentinel://{rest}"):
        masked(text)
        try:
            parse_url(text)
        except ConfigError:
            continue


@given(st.text(max_size=20, alphabet=st.characters(codec="ascii", categories=["L", "N", "P", "S"])))
def test_bare_password_is_never_shown(middle):
    """A password that was not percent-encoded is still not shown, wherever it ends up."""
    text = f"redis://user:s3cret{middle}s3cret@host"
    try:
        shown = f"{masked(text)} {parse_url(text)!r}"
    except ConfigError as refused:
        shown = f"{masked(text)} {refused} {refused.hint}"
    assert "s3cret" not in shown


def test_repr_hides_secrets():
    """An address in a traceback or log does not show its passwords."""
    assert "s3cret" not in repr(parse_url("redis+sentinel://u:s3cret@h/m?sentinel_password=s3cret"))
