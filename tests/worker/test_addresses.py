"""Which addresses are public."""

from __future__ import annotations

import pytest

from orchestra.worker.addresses import is_global


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "192.0.0.8",
        "192.0.0.9",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "192.88.99.1",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::ffff:0:8.8.8.8",
        "64:ff9b::7f00:1",
        "64:ff9b::808:808",
        "64:ff9b:1::1",
        "2002:7f00:1::1",
        "2002:808:808::1",
        "2001::1",
        "2001:0:1::1",
        "2001:db8::1",
        "2001:20::1",
        "3fff::1",
        "fe80::1",
        "fe80::1%eth0",
        "2606:4700::1%1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "fec0::1",
        "100::1",
        "2606:4700::5efe:7f00:1",
        "5f00::1",
        "",
        "example.com",
        "1",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_global(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450::1"])
def test_addresses_that_are_public(address: str) -> None:
    assert is_global(address)
