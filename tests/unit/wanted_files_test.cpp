#include "espalier/read/wanted_files.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace espalier {
namespace {

std::vector<std::string> names(std::size_t count) {
  return std::vector<std::string>(count, "name");
}

TEST_CASE("Wanted files are numbered from 1, and answered in order") {
  WantedFiles files{Limits()};
  CHECK(files.waiting().empty());
  REQUIRE(files.want({"a", "b"}));
  REQUIRE(files.take_answer(1));
  REQUIRE(files.want({"c"}));
  REQUIRE(files.waiting().size() == 2);
  CHECK(files.waiting()[0].number == 2);
  CHECK(files.waiting()[1].number == 3);
  CHECK(files.waiting()[1].name == "c");
  for (const std::uint32_t wrong : {0u, 1u, 3u, 4u}) {
    const auto taken = files.take_answer(wrong);
    REQUIRE_FALSE(taken);
    CHECK(taken.error().code == ErrorCode::kInvalidArgument);
  }
  REQUIRE(files.take_answer(2));
  REQUIRE(files.take_answer(3));
  CHECK(files.waiting().empty());
  CHECK_FALSE(files.take_answer(4));
  CHECK(files.all().size() == 3);
}

TEST_CASE("a wanted file is beside the first, or below its folder for formats that say so") {
  const auto is_allowed = [](const char* name, FilePlace place) {
    WantedFiles files{Limits()};
    REQUIRE(files.want({name}, place));
    return has_allowed_name(files.waiting()[0]);
  };
  for (const char* name : {"a", ".a", "a..b", "d/0f", "ocdbt.process_0/d/0f", "a/b/c/\xC3\xA9 x"}) {
    CAPTURE(name);
    CHECK(is_allowed(name, FilePlace::kBelow));
    CHECK(is_allowed(name, FilePlace::kBeside) ==
          (std::string(name).find('/') == std::string::npos));
  }
  const std::string deep = "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a";
  CHECK(is_allowed(deep.c_str(), FilePlace::kBelow));
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("/a"), std::string("a/"),
        std::string("a//b"), std::string("../a"), std::string("a/../b"), std::string("a/./b"),
        std::string("a\\b"), std::string("C:a/b"), std::string("a/b\n"), deep + "/a"}) {
    CAPTURE(name);
    CHECK_FALSE(is_allowed(name.c_str(), FilePlace::kBelow));
    CHECK_FALSE(is_allowed(name.c_str(), FilePlace::kBeside));
  }
}

TEST_CASE("No more files are wanted than Limits::files, however they are asked for") {
  struct Case {
    std::uint32_t limit;
    std::size_t most;
  };
  for (const Case& c : {Case{0, 0}, Case{1, 1}, Case{1024, 1024}, Case{65'534, 65'534},
                        Case{65'535, 65'534}, Case{~0u, 65'534}}) {
    CAPTURE(c.limit);
    const auto is_refused = [&](WantedFiles& files, std::size_t more) {
      const std::size_t before = files.all().size();
      const auto ok = files.want(names(more));
      // None of those that were asked for together.
      return !ok && ok.error().code == ErrorCode::kLimitExceeded && files.all().size() == before;
    };
    WantedFiles at_once{{.files = c.limit}};
    CHECK(is_refused(at_once, c.most + 1));
    CHECK(at_once.want(names(c.most)));
    CHECK(is_refused(at_once, 1));
    CHECK(at_once.want({}));
    if (c.most < 2) continue;
    WantedFiles in_turn{{.files = c.limit}};
    CHECK(in_turn.want(names(c.most / 2)));
    while (!in_turn.waiting().empty()) CHECK(in_turn.take_answer(in_turn.waiting()[0].number));
    CHECK(is_refused(in_turn, c.most - c.most / 2 + 1));
    CHECK(in_turn.want(names(c.most - c.most / 2)));
  }
}

}  // namespace
}  // namespace espalier
