// What several foreign formats have in common: numbers of seven-bit groups, protocol buffers,
// CRC-32C.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "espalier/bytes.h"
#include "espalier/foreign/common/crc32c.h"
#include "espalier/foreign/common/protobuf.h"
#include "espalier/foreign/common/varint.h"

namespace espalier {
namespace {

using namespace std::string_view_literals;

TEST_CASE("crc32c: the vectors of RFC 3720, in pieces of every length") {
  const std::string zeros(32, '\0');
  CHECK(crc32c_after(0, as_bytes(zeros)) == 0x8A9136AA);
  CHECK(crc32c_after(0, as_bytes(std::string(32, '\xFF'))) == 0x62A8AB43);
  std::string rising;
  for (int i = 0; i < 32; ++i) rising.push_back(static_cast<char>(i));
  for (std::size_t cut = 0; cut <= rising.size(); ++cut) {
    const std::uint32_t before = crc32c_after(0, as_bytes(rising.substr(0, cut)));
    CHECK(crc32c_after(before, as_bytes(rising.substr(cut))) == 0x46DD794E);
    const std::uint32_t after = crc32c_after(0, as_bytes(rising.substr(cut)));
    CHECK(crc32c_joined(before, after, rising.size() - cut) == 0x46DD794E);
  }
  CHECK(crc32c_after(0, as_bytes("123456789"sv)) == 0xE3069283);
}

TEST_CASE("varint: up to 64 bits, and not cut off") {
  const auto read = [](std::string_view bytes, std::size_t& at) {
    return read_varint(as_bytes(bytes), at);
  };
  std::size_t at = 0;
  CHECK(read("\xAC\x02\x05"sv, at) == 300);
  CHECK(at == 2);
  CHECK(read("\xAC\x02\x05"sv, at) == 5);
  CHECK(!read("\xAC\x02\x05"sv, at));
  CHECK(at == 3);
  at = 0;
  CHECK(read("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"sv, at) == ~std::uint64_t{0});
  for (const std::string_view bad :
       {"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02"sv,
        "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"sv, "\xAC"sv, ""sv}) {
    at = 0;
    CHECK(!read(bad, at));
    CHECK(at == 0);
  }
}

TEST_CASE("protobuf: each type of field, and what is none") {
  // 1: 300, 2: "ab", 3: fixed32 7, 4: fixed64 9.
  const std::string_view message =
      "\x08\xAC\x02\x12\x02"
      "ab\x1D\x07\0\0\0\x21\x09\0\0\0\0\0\0\0"sv;
  WireMessage fields(as_bytes(message));
  std::vector<std::uint64_t> seen;
  std::string text;
  while (const WireField* field = fields.next()) {
    seen.push_back(field->number);
    seen.push_back(field->value);
    if (field->type == WireType::kBytes) text = as_text(fields.contents(*field));
  }
  CHECK(!fields.is_bad());
  CHECK(seen == std::vector<std::uint64_t>{1, 300, 2, 0, 3, 7, 4, 9});
  CHECK(text == "ab");

  // Cut off anywhere but between two fields, it is bad.
  for (std::size_t length = 0; length < message.size(); ++length) {
    WireMessage cut(as_bytes(message.substr(0, length)));
    while (cut.next() != nullptr) {
    }
    CHECK(cut.is_bad() == (length != 0 && length != 3 && length != 7 && length != 12));
    CHECK(cut.at() <= length);
  }
  for (const std::string_view bad :
       {"\0\0"sv, "\x0B"sv, "\x0C"sv, "\x0E\0"sv, "\x0F\0"sv, "\x80\x80\x80\x80\x10\0"sv,
        "\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"sv}) {
    WireMessage fields_of_bad(as_bytes(bad));
    CHECK(fields_of_bad.next() == nullptr);
    CHECK(fields_of_bad.is_bad());
  }
}

TEST_CASE("protobuf: the contents of a field may lie beyond what has come") {
  std::size_t at = 0;
  WireField field;
  const ByteSpan bytes = as_bytes("\x0A\x80\x01xy"sv);
  CHECK(read_wire_field(bytes, at, field) == WireResult::kField);
  CHECK(at == 3);
  CHECK(field.length == 128);
  at = 0;
  CHECK(read_wire_field(bytes.first(2), at, field) == WireResult::kCut);
  CHECK(at == 0);
}

}  // namespace
}  // namespace espalier
