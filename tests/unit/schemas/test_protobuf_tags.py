"""Tags in Protobuf: each at its place, however messages are nested."""

from __future__ import annotations

from registry.domain.schemas import FORMATS, Entity, Tagged

TEXT = """syntax = "proto3";
package p;
message A {
  string a = 1;
  oneof one { string b = 2; }
  enum E { ZERO = 0; }
  message I { string x = 1; message J { string y = 1; } message K { string y = 1; } }
  enum F { NIL = 0; }
}
enum Between { NONE = 0; }
message B { string a = 1; message I { string x = 1; } }
"""


def test_tags_go_where_their_paths_lead_and_away_again() -> None:
    schema = FORMATS["PROTOBUF"].parse(TEXT)
    wanted: list[Tagged] = [
        (Entity("A", "sr_record"), ("t1",)),
        (Entity("A.b", "sr_field"), ("t2", "t3")),
        (Entity("A.I.x", "sr_field"), ("t4",)),
        (Entity("A.I.J", "sr_record"), ("t5",)),
        (Entity("A.I.K.y", "sr_field"), ("t6",)),
        (Entity("B.a", "sr_field"), ("t7",)),
        (Entity("B.I.x", "sr_field"), ("t8",)),
    ]
    tagged = FORMATS["PROTOBUF"].parse(schema.retag(wanted, ()))
    assert list(tagged.tags()) == wanted
    assert tagged.retag((), wanted) == schema.canonical
