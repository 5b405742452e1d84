"""What reading JSON or MessagePack raises that anybody may have written. One tuple, for it is easily named in part: of
bytes that are not UTF-8 msgspec raises what is no error of its own.
"""

from __future__ import annotations

import msgspec

#: It is none, or not of the form that is wanted; not UTF-8; or nested deeper than is read.
UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
