#include "espalier/key_path.h"

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

namespace {

using espalier::ErrorCode;
using espalier::Key;
using espalier::KeyPath;
using espalier::KeyView;

constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
constexpr auto kMax = std::numeric_limits<std::int64_t>::max();

static_assert(std::is_convertible_v<int, Key> && std::is_convertible_v<unsigned, Key>);
static_assert(std::is_convertible_v<const char*, Key> && std::is_convertible_v<std::string, Key>);
static_assert(!std::is_constructible_v<Key, bool> && !std::is_constructible_v<Key, char>);
static_assert(std::is_convertible_v<std::size_t, Key> && !std::is_constructible_v<Key, double>);

Key random_key(std::mt19937_64& random) {
  static const std::vector<std::string> hostile = {"",
                                                   "~",
                                                   "/",
                                                   "~~",
                                                   "//",
                                                   "0",
                                                   "-0",
                                                   "-",
                                                   "-1",
                                                   "~0",
                                                   "~1",
                                                   "~2",
                                                   "~20",
                                                   "~02",
                                                   "007",
                                                   "00",
                                                   "+1",
                                                   " 1",
                                                   "1 ",
                                                   "1/2",
                                                   "a/b",
                                                   "\n",
                                                   "-9223372036854775808",
                                                   "-9223372036854775809",
                                                   "9223372036854775807",
                                                   "9223372036854775808",
                                                   "99999999999999999999",
                                                   std::string("\0", 1),
                                                   "\x1F\x7F",
                                                   "\xC3\xA9",
                                                   "\xE2\x82\xAC/~",
                                                   "\xF0\x9F\x98\x80",
                                                   "1\xD9\xA1",
                                                   "*",
                                                   "**"};
  static const std::int64_t integers[] = {0, -1, 1, 7, 10, -10, kMin, kMax};
  switch (random() % 4) {
    case 0:
      return hostile[random() % hostile.size()];
    case 1:
      return integers[random() % std::size(integers)];
    case 2:
      return static_cast<std::int64_t>(random());
    default: {
      std::string text;
      while (random() % 4 != 0) text += "~/012-a"[random() % 7];
      return text;
    }
  }
}

std::string message_of(std::string_view text) {
  const auto path = KeyPath::parse(text);
  REQUIRE_FALSE(path);
  CHECK(path.error().code == ErrorCode::kInvalidKeyPath);
  return path.error().message;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("keys: integers come first, strings are ordered by unsigned bytes") {
  const std::vector<Key> sorted = {kMin, -1,  0,   9,    10,   kMax,   "",        "0",
                                   "10", "9", "a", "a/", "aa", "\x7F", "\xC3\xA9"};
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    for (std::size_t j = 0; j < sorted.size(); ++j) {
      CHECK((sorted[i] <=> sorted[j]) == (i <=> j));
      CHECK((sorted[i].view() <=> sorted[j].view()) == (i <=> j));
      CHECK((sorted[i] == sorted[j]) == (i == j));
      CHECK((sorted[i].view() == sorted[j].view()) == (i == j));
    }
  }
  CHECK(Key() == Key(""));
  CHECK(Key() == Key(KeyView{}));
  CHECK(Key(KeyView::of(5)) == Key(5));
  CHECK(KeyView{true, 1, "left over"} == KeyView::of(1));
  CHECK(KeyView{false, 1, "a"} == KeyView::of("a"));
}

TEST_CASE("keys: an integer beyond 64 signed bits is the text of its digits, as in a path") {
  CHECK(Key(std::uint64_t{7}) == Key(7));
  CHECK(Key(~std::uint64_t{0}) == Key("18446744073709551615"));
  CHECK(KeyPath({~std::uint64_t{0}}) == *KeyPath::parse("18446744073709551615"));
}

TEST_CASE("key paths: the texts in the manual") {
  const auto check = [](const KeyPath& path, const std::string& text) {
    CHECK(path.to_string() == text);
    const auto parsed = KeyPath::parse(text);
    REQUIRE(parsed);
    CHECK(*parsed == path);
  };
  check({}, "");
  check({"model", "layers", 0, "weight"}, "model/layers/0/weight");
  check({"a/b", "m~n"}, "a~1b/m~0n");
  check({"state", "0"}, "state/~20");
  check({""}, "~2");
  check({"", ""}, "~2/~2");
  check({"~2"}, "~02");
  check({"~20"}, "~020");
  check({"007", "-0", "99999999999999999999"}, "007/-0/99999999999999999999");
  check({kMin, kMax}, "-9223372036854775808/9223372036854775807");
  check({"-9223372036854775808", "9223372036854775807"},
        "~2-9223372036854775808/~29223372036854775807");
  check({"-9223372036854775809", "9223372036854775808"},
        "-9223372036854775809/9223372036854775808");
}

TEST_CASE("key paths: what printing never emits is refused, with the place and the remedy") {
  CHECK(contains(message_of("a//b"), "bad key path 'a//b' at character 3: "));
  CHECK(contains(message_of("a\x1b[7m\xFF//"), "bad key path 'a\\x1b[7m\\xff//' at character 6: "));
  // Not half a character.
  CHECK(contains(message_of(std::string(199, 'a') + "\xC3\xA9//"),
                 "bad key path '" + std::string(199, 'a') + "[...]' at character 202: "));
  CHECK(contains(message_of("//"), "at character 2: there is no key between two '/'"));
  CHECK(contains(message_of("//a"), "at character 2: there is no key"));
  CHECK(contains(message_of("a//"), "at character 3: there is no key"));
  CHECK(contains(message_of("a//b"), "at character 3: there is no key between two '/'"));
  CHECK(contains(message_of("a//b"), "write '~2' for the empty string key"));
  CHECK(contains(message_of("x/~2abc"), "at character 3: '~2' marks"));
  CHECK(contains(message_of("~2007"), "needs no mark"));
  CHECK(contains(message_of("~2-0"), "needs no mark"));
  CHECK(contains(message_of("~299999999999999999999"), "needs no mark"));
  CHECK(contains(message_of("~2~2"), "needs no mark"));
  CHECK(contains(message_of("a~2"), "at character 2: '~2' may only stand at the start"));
  CHECK(contains(message_of("~3"), "'~' must be followed by 0, 1 or 2"));
  CHECK(contains(message_of("a~"), "at character 2: '~' must be followed"));
  CHECK(contains(message_of("a~/1"), "at character 2: '~' must be followed"));
  CHECK(contains(message_of("\xC3\xA9/~3"), "at character 3: "));
  CHECK(contains(message_of("\xC3\xA9/\xFF"), "at character 3: the text is not UTF-8"));
  CHECK(contains(message_of("\xC3/a"), "not UTF-8"));
}

TEST_CASE("key paths: printing then parsing gives the same keys") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 50000; ++round) {
    KeyPath path;
    for (auto keys = random() % 6; keys > 0; --keys) path.push_back(random_key(random));
    const std::string text = path.to_string();
    const auto parsed = KeyPath::parse(text);
    REQUIRE_MESSAGE(parsed, text);
    REQUIRE_MESSAGE(*parsed == path, text);
    REQUIRE(text.empty() == path.empty());
  }
}

TEST_CASE("key paths: a slash before and one after a path are taken off") {
  CHECK(KeyPath::parse("/") == KeyPath{});
  CHECK(KeyPath::parse("/a") == KeyPath{"a"});
  CHECK(KeyPath::parse("a/") == KeyPath{"a"});
  CHECK(KeyPath::parse("/a/0/") == KeyPath{"a", 0});
  CHECK(KeyPath::parse("/~2/") == KeyPath{""});
}

TEST_CASE("key paths: text that parses is what printing gives, without slashes around it") {
  std::mt19937_64 random(3);
  const std::vector<std::string> pieces = {"~",
                                           "/",
                                           "0",
                                           "1",
                                           "2",
                                           "-",
                                           "a",
                                           "\xC3\xA9",
                                           "\xC3",
                                           "9223372036854775807",
                                           "9223372036854775808",
                                           "~2"};
  int accepted = 0;
  for (int round = 0; round < 200000; ++round) {
    std::string text;
    for (auto count = random() % 8; count > 0; --count) text += pieces[random() % pieces.size()];
    const auto parsed = KeyPath::parse(text);
    if (!parsed) continue;
    ++accepted;
    std::string_view core = text;
    if (core.starts_with('/')) core.remove_prefix(1);
    if (core.ends_with('/')) core.remove_suffix(1);
    REQUIRE(parsed->to_string() == core);
  }
  CHECK(accepted > 20000);
}

TEST_CASE("key paths: getting around") {
  const KeyPath path = KeyPath{"model"} / "layers" / 0;
  CHECK(path == KeyPath{"model", "layers", 0});
  CHECK(path.size() == 3);
  CHECK(path[1] == Key("layers"));
  CHECK(path.back() == Key(0));
  CHECK(path.parent() == KeyPath{"model", "layers"});
  CHECK(KeyPath{}.parent() == KeyPath{});
  CHECK(path.starts_with(path));
  CHECK(path.starts_with({}));
  CHECK(path.starts_with(path.parent()));
  CHECK_FALSE(path.parent().starts_with(path));
  CHECK_FALSE(path.starts_with({"model", 0}));
  CHECK(path.parent() < path);
  CHECK(path < KeyPath{"model", "layers", 1});
  CHECK(path < KeyPath{"model", "m"});
  CHECK((path <=> path) == 0);
  std::string text;
  for (const Key& key : path) espalier::append_path(text, key.view());
  CHECK(text == "model/layers/0");
}
