// Names of further files: those that every system takes, and no other.
#include "espalier/format/file_table.h"

#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace espalier {
namespace {

TEST_CASE("Names of files are labels that no system takes for a place or a device") {
  for (const char* name : {"a", "model-00001-of-00002.safetensors", "_", "9", "a.b-c_d", "COM",
                           "con1", "COM10.pt", "console"}) {
    CAPTURE(name);
    CHECK(is_file_label(name));
  }
  for (const std::string& name :
       {std::string(),           std::string("."),       std::string(".."),
        std::string("../a"),     std::string("a/b"),     std::string("a\\b"),
        std::string("C:"),       std::string(".hidden"), std::string("-f"),
        std::string("a."),       std::string("con"),     std::string("NUL.pt"),
        std::string("Com1.x.y"), std::string("lpt9"),    std::string("aux"),
        std::string("a b"),      std::string("a%2e"),    std::string("\xC3\xA9"),
        std::string("a\0", 2),   std::string(129, 'a')}) {
    CAPTURE(name);
    CHECK_FALSE(is_file_label(name));
  }
  CHECK(is_file_label(std::string(128, 'a')));
}

TEST_CASE("A name that is not in the pool of texts is refused before it is looked at") {
  const std::string text = "abcdef";
  const auto is_valid = [&](const std::vector<std::uint32_t>& ends, std::uint32_t name,
                            std::size_t size) {
    FileRecord record;
    record.length = 10;
    record.name = name;
    record.head = 1;
    Tables tables;
    tables.files = std::span(&record, 1);
    tables.text_ends = ends;
    tables.text = std::span(text).first(size);
    const auto ok = check_file_table(tables, reinterpret_cast<const std::byte*>(&record));
    if (!ok) CHECK(ok.error().code == ErrorCode::kIndexInvalid);
    return ok.has_value();
  };
  CHECK(is_valid({3, 6}, 1, 6));
  CHECK_FALSE(is_valid({3, 6}, 2, 6));
  CHECK_FALSE(is_valid({3, 6}, 1, 5));
  CHECK_FALSE(is_valid({3, 3}, 1, 6));
  // From 4 GiB beyond the pool on, six characters.
  CHECK_FALSE(is_valid({0xFFFF'FFFF, 5}, 1, 6));
}

}  // namespace
}  // namespace espalier
