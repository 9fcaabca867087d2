"""Which addresses the proxy may dial: those of the public internet. Pure.

Private, loopback, link-local (cloud metadata), shared, multicast and reserved ranges are not public, nor is any IPv6
form that carries an IPv4 address inside (mapped, 6to4, Teredo, NAT64). Names are judged before (core/domains.py).
"""

from __future__ import annotations

import ipaddress

_V6_PUBLIC = ipaddress.IPv6Network("2000::/3")  # every assigned range; mapped, NAT64 and local addresses are outside
# Protocol assignments with Teredo, documentation (twice), 6to4, the closed 6bone.
_V6_RESERVED = ("2001::/23", "2001:db8::/32", "3fff::/20", "2002::/16", "3ffe::/16")
_V6_NOT = tuple(map(ipaddress.IPv6Network, _V6_RESERVED))
# Protocol assignments, 6to4 relays, AS112 (twice), AMT; multicast and above; the host service of Azure machines.
_V4_RESERVED = ("192.0.0.0/24", "192.88.99.0/24", "192.31.196.0/24", "192.175.48.0/24", "192.52.193.0/24")
_V4_NOT = tuple(map(ipaddress.IPv4Network, (*_V4_RESERVED, "224.0.0.0/3", "168.63.129.16/32")))


def is_global(address: str) -> bool:
    """Whether an address, as a resolver gives it, is one of the public internet."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv4Address):
        return ip.is_global and not any(ip in net for net in _V4_NOT)
    carries_v4 = ip.packed[8:12] in (b"\0\0\x5e\xfe", b"\2\0\x5e\xfe")  # ISATAP
    public = ip.scope_id is None and ip in _V6_PUBLIC and ip.is_global
    return public and not carries_v4 and not any(ip in net for net in _V6_NOT)
