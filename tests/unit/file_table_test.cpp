// Names of further files: those that every system takes, and no other.
#include "espalier/format/file_table.h"

#include <string>

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

}  // namespace
}  // namespace espalier
