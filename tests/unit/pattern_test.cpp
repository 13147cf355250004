#include "espalier/pattern.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "espalier/base/utf8.h"

namespace {

using espalier::ErrorCode;
using espalier::LetterCase;
using espalier::Pattern;

// A second opinion, written the slow and obvious way: expand the braces, then match by recursion.
// It takes only patterns that `Pattern::parse` has accepted.
namespace reference {

using Text = std::u32string;

Text decode(std::string_view text) {
  Text result;
  for (std::size_t i = 0; i < text.size();) {
    const auto c = espalier::decode_utf8(text, i);
    result += c.code_point;
    i += c.length;
  }
  return result;
}

std::vector<Text> split(const Text& text) {
  std::vector<Text> parts;
  if (text.empty()) return parts;
  parts.emplace_back();
  for (const char32_t c : text) {
    if (c == U'/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// The end of the element (a character, an escape or a class) at `i`.
std::size_t after(const Text& p, std::size_t i) {
  if (p[i] == U'\\') return i + 2;
  if (p[i] != U'[') return i + 1;
  i += p[i + 1] == U'!' ? 2 : 1;
  while (p[i] != U']') i += p[i] == U'\\' ? 2 : 1;
  return i + 1;
}

/// Replaces the first group by each of its alternatives, and so on until there is none.
std::vector<Text> expand(const Text& p) {
  std::size_t open = 0;
  while (open < p.size() && p[open] != U'{') open = after(p, open);
  if (open == p.size()) return {p};
  std::vector<Text> alternatives(1);
  std::size_t i = open + 1;
  for (int depth = 0; depth > 0 || p[i] != U'}';) {
    const std::size_t next = after(p, i);
    if (p[i] == U'{') ++depth;
    if (p[i] == U'}') --depth;
    if (p[i] == U',' && depth == 0) {
      alternatives.emplace_back();
    } else {
      alternatives.back() += p.substr(i, next - i);
    }
    i = next;
  }
  std::vector<Text> all;
  for (const Text& alternative : alternatives) {
    // The text before the group must keep its meaning beside its new neighbour. It does, because
    // every element but a group ends at `after`, whatever follows it.
    for (Text& text : expand(p.substr(0, open) + alternative + p.substr(i + 1))) {
      all.push_back(std::move(text));
    }
  }
  return all;
}

bool in_class(const Text& p, std::size_t i, char32_t c) {
  const std::size_t end = after(p, i) - 1;
  const bool negated = p[i + 1] == U'!';
  i += negated ? 2 : 1;
  bool found = false;
  while (i < end) {
    const char32_t first = p[i] == U'\\' ? p[i + 1] : p[i];
    i += p[i] == U'\\' ? 2 : 1;
    char32_t last = first;
    if (i + 1 < end && p[i] == U'-') {
      last = p[i + 1] == U'\\' ? p[i + 2] : p[i + 1];
      i += p[i + 1] == U'\\' ? 3 : 2;
    }
    found = found || (first <= c && c <= last);
  }
  return found != negated;
}

bool match_text(const Text& p, const Text& s) {
  if (p.empty()) return s.empty();
  if (p[0] == U'*') {
    return match_text(p.substr(1), s) || (!s.empty() && match_text(p, s.substr(1)));
  }
  if (s.empty()) return false;
  const bool first = p[0] == U'?'    ? true
                     : p[0] == U'['  ? in_class(p, 0, s[0])
                     : p[0] == U'\\' ? p[1] == s[0]
                                     : p[0] == s[0];
  return first && match_text(p.substr(after(p, 0)), s.substr(1));
}

bool match_segments(const std::vector<Text>& p, std::size_t i, const std::vector<Text>& s,
                    std::size_t j) {
  if (i == p.size()) return j == s.size();
  if (p[i] == U"**") {
    return match_segments(p, i + 1, s, j) || (j < s.size() && match_segments(p, i, s, j + 1));
  }
  if (j == s.size()) return false;
  for (const Text& text : expand(p[i])) {
    if (match_text(text, s[j])) return match_segments(p, i + 1, s, j + 1);
  }
  return false;
}

bool matches(std::string_view pattern, std::string_view path) {
  if (pattern.starts_with('/')) pattern.remove_prefix(1);
  if (pattern.ends_with('/')) pattern.remove_suffix(1);
  return match_segments(split(decode(pattern)), 0, split(decode(path)), 0);
}

}  // namespace reference

bool matches(std::string_view pattern, std::string_view path) {
  const auto parsed = Pattern::parse(pattern);
  REQUIRE_MESSAGE(parsed, pattern);
  CHECK(reference::matches(pattern, path) == parsed->matches(path));
  return parsed->matches(path);
}

std::string message_of(std::string_view text) {
  const auto pattern = Pattern::parse(text);
  REQUIRE_FALSE(pattern);
  CHECK(pattern.error().code == ErrorCode::kInvalidPattern);
  return pattern.error().message;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string repeat(std::string_view unit, std::size_t count) {
  std::string text;
  for (; count > 0; --count) text += unit;
  return text;
}

}  // namespace

TEST_CASE("patterns: the root") {
  CHECK(matches("", ""));
  CHECK_FALSE(matches("", "a"));
  CHECK(matches("**", ""));
  CHECK(matches("**/**", ""));
  CHECK_FALSE(matches("*", ""));
  CHECK_FALSE(matches("**/*", ""));
}

TEST_CASE("patterns: literals and stars") {
  CHECK(matches("a/b", "a/b"));
  CHECK_FALSE(matches("a/b", "a"));
  CHECK_FALSE(matches("a/b", "a/b/c"));
  CHECK_FALSE(matches("a", "A"));
  CHECK(matches("a/*", "a/b"));
  CHECK_FALSE(matches("a/*", "a"));
  CHECK_FALSE(matches("a/*", "a/b/c"));
  CHECK(matches("a*c", "ac"));
  CHECK(matches("a*c", "abbc"));
  CHECK_FALSE(matches("ab*bc", "abc"));
  CHECK(matches("*.w*t", "x.weight"));
  CHECK(matches("*a*b*", "xxaxxbxx"));
  CHECK_FALSE(matches("*a*b*", "xxbxxaxx"));
}

TEST_CASE("patterns: globstars") {
  CHECK(matches("**", "a/b/c"));
  CHECK(matches("a/**", "a"));
  CHECK(matches("a/**", "a/b/c"));
  CHECK_FALSE(matches("a/**", "ab"));
  CHECK(matches("**/w", "w"));
  CHECK(matches("**/w", "a/b/w"));
  CHECK(matches("a/**/b", "a/b"));
  CHECK(matches("a/**/b", "a/b/b/b"));
  CHECK_FALSE(matches("a/**/b", "a/b/c"));
  CHECK(matches("**/a/**/b/**", "x/a/y/b/z"));
  CHECK_FALSE(matches("**/*/*", "a"));
}

TEST_CASE("patterns: characters, classes, alternatives, escapes") {
  CHECK(matches("?", "\xF0\x9F\x98\x80"));
  CHECK(matches("a?c",
                "a\xC3\xA9"
                "c"));
  CHECK_FALSE(matches("??", "\xC3\xA9"));
  CHECK(matches("[0-9]", "7"));
  CHECK_FALSE(matches("[0-9]", "10"));
  CHECK(matches("[!a-z]", "A"));
  CHECK_FALSE(matches("[!a-z]", "q"));
  CHECK(matches("[\xC3\xA0-\xC3\xBF]", "\xC3\xA9"));
  CHECK(matches("[-a]", "-"));
  CHECK(matches("[a-]", "-"));
  CHECK(matches("[\\]\\-\\\\]", "]"));
  CHECK(matches("[\\]\\-\\\\]", "-"));
  CHECK(matches("[\\]\\-\\\\]", "\\"));
  CHECK(matches("[a^*?{,}]", "{"));
  CHECK(matches("{weight,bias}", "bias"));
  CHECK_FALSE(matches("{weight,bias}", "weight,bias"));
  CHECK(matches("{a,{b,c*}?}x", "cccyx"));
  CHECK(matches("a{,b}", "a"));
  CHECK(matches("a{}b", "ab"));
  CHECK(matches("{a[,}],b}", "a}"));
  CHECK(matches("\\*", "*"));
  CHECK_FALSE(matches("\\*", "a"));
  CHECK(matches("\\**\\?", "*abc?"));
  CHECK(matches("a,b]}!-^", "a,b]}!-^"));
  CHECK(matches("\\\xC3\xA9", "\xC3\xA9"));
  CHECK(matches("~20", "~20"));
  CHECK_FALSE(matches("0", "~20"));
  CHECK(matches("a?1b", "a~1b"));
}

TEST_CASE("patterns: mistakes are refused, with the place and the remedy") {
  CHECK(contains(message_of("a//b"), "bad pattern 'a//b' at character 3: "));
  CHECK(contains(message_of(std::string(300, 'a') + "//"),
                 "bad pattern '" + std::string(200, 'a') + "[...]' at character 302: "));
  CHECK(contains(message_of("a/{b/c}"), "at character 5: '/' is not allowed inside '{...}'"));
  CHECK(contains(message_of("a{b"), "at character 2: '{' is never closed"));
  CHECK(contains(message_of("{a,{b}"), "at character 1: '{' is never closed"));
  CHECK(contains(message_of("[ab"), "at character 1: '[' is not closed"));
  CHECK(contains(message_of("[ab/]"), "at character 1: '[' is not closed"));
  CHECK(contains(message_of("[a-/]"), "'[' is not closed"));
  CHECK(contains(message_of("[a-"), "'[' is not closed"));
  CHECK(contains(message_of("["), "'[' is not closed"));
  CHECK(contains(message_of("[!"), "'[' is not closed"));
  CHECK(contains(message_of("[]"), "'[]' lists no characters"));
  CHECK(contains(message_of("[!]"), "'[]' lists no characters"));
  CHECK(contains(message_of("[^a]"), "at character 2: write '[!'"));
  CHECK(contains(message_of("[z-a]"), "at character 2: this range is backwards"));
  CHECK(contains(message_of("\xC3\xA9**"), "at character 2: '**' must be a whole segment"));
  CHECK(contains(message_of("**a"), "at character 1: '**' must be a whole segment"));
  CHECK(contains(message_of("***"), "'**' must be a whole segment"));
  CHECK(contains(message_of("{**,a}"), "'**' must be a whole segment"));
  CHECK(contains(message_of("a\\"), "at character 2: '\\' has no character after it"));
  CHECK(contains(message_of("a\\/b"), "'\\' has no character after it"));
  CHECK(contains(message_of("[\\"), "'\\' has no character after it"));
  CHECK(contains(message_of("//a"), "at character 2: a segment is empty"));
  CHECK(contains(message_of("a//b"), "at character 3: a segment is empty"));
  CHECK(contains(message_of("a//"), "at character 3: a segment is empty"));
  CHECK(contains(message_of("//"), "a segment is empty"));
  CHECK(contains(message_of("a\\/"), "'\\' has no character after it"));
  CHECK(contains(message_of("a\xFF"), "at character 2: the text is not UTF-8"));
}

TEST_CASE("patterns: a slash before and one after a pattern are taken off") {
  CHECK(matches("/", ""));
  CHECK_FALSE(matches("/", "a"));
  CHECK(matches("/a/b", "a/b"));
  CHECK(matches("a/b/", "a/b"));
  CHECK(matches("**/", "a/b"));
  CHECK(matches("/*/", "a"));
  CHECK(Pattern::parse("/a/b/")->literal_path() == "a/b");
}

TEST_CASE("patterns: a literal segment matches the mark of a key that is printed without") {
  const auto steps = [](std::string_view text) {
    const Pattern pattern = *Pattern::parse(text);
    return pattern.accepts(pattern.step(pattern.start(), "8", true));
  };
  CHECK(steps("8"));
  CHECK(steps("~28"));
  CHECK(steps("**"));
  CHECK(steps("?"));
  CHECK_FALSE(steps("???"));
  CHECK_FALSE(steps("~2*"));
  CHECK_FALSE(steps("~29"));
}

TEST_CASE("patterns: limits") {
  const std::string longest = repeat("a/", 61) + "a";
  CHECK(matches(longest, longest));
  CHECK_FALSE(matches(longest, longest + "/a"));
  CHECK(matches(repeat("**/", 61) + "**", longest + "/a/a"));
  CHECK(contains(message_of(longest + "/a"), "at most 62 segments"));
  CHECK(Pattern::parse(std::string(4096, 'a')));
  CHECK(contains(message_of(std::string(4097, 'a')), "longer than 4096 bytes"));
}

TEST_CASE("patterns: literal paths") {
  const auto literal = [](std::string_view text) { return Pattern::parse(text)->literal_path(); };
  CHECK(literal("") == "");
  CHECK(literal("a/~20/\\*\\\\") == "a/~20/*\\");
  CHECK(literal("a,b]/}") == "a,b]/}");
  for (const char* text : {"*", "**", "a/**", "a*", "a/?", "[a]", "{a}"}) {
    CHECK_MESSAGE(literal(text) == std::nullopt, text);
    CHECK_FALSE(Pattern::parse(text)->is_literal());
  }
  CHECK(Pattern::parse("a/b")->is_literal());
}

TEST_CASE("patterns: a walk prunes what cannot match") {
  const auto pattern = Pattern::parse("model/*/weight");
  const auto model = pattern->step(pattern->start(), "model");
  CHECK(model != 0);
  CHECK_FALSE(pattern->accepts(model));
  CHECK(pattern->step(pattern->start(), "optimizer") == 0);
  const auto weight = pattern->step(pattern->step(model, "0"), "weight");
  CHECK(pattern->accepts(weight));
  CHECK(pattern->step(weight, "more") == 0);
  CHECK_FALSE(pattern->accepts(0));
  CHECK(pattern->step(0, "model") == 0);
}

TEST_CASE("patterns: names that are not UTF-8 are matched byte by byte and harm nothing") {
  CHECK(Pattern::parse("a?*")->matches("a\xFF\xC3"));
  CHECK(Pattern::parse("?{?,b}")->matches("\xE2\x82"));
  CHECK_FALSE(Pattern::parse("[a-\xF4\x8F\xBF\xBF]")->matches("\xFF"));
  CHECK_FALSE(Pattern::parse("a/*")->matches("a//b/"));
}

TEST_CASE("patterns: random patterns agree with the reference, by path and by step") {
  std::mt19937_64 random(5);
  const std::vector<std::string> syntax = {
      "a",    "b",     "a",        "b",  "*",   "?", "**/",  "/",      "{",
      ",",    "}",     "[",        "]",  "!",   "-", "\\",   "**",     "[a-c]",
      "[!a]", "{a,b}", "\xC3\xA9", "{,", "[b-", "~", "/**/", "{a*,?}", "c"};
  const std::vector<std::string> names = {"a", "b", "c", "/", "\xC3\xA9", "*", "-", "~", "a"};
  int accepted = 0;
  int matched = 0;
  for (int round = 0; round < 150000; ++round) {
    std::string text;
    for (auto count = random() % 9; count > 0; --count) text += syntax[random() % syntax.size()];
    const auto pattern = Pattern::parse(text);
    if (!pattern) continue;
    ++accepted;
    for (int names_left = 8; names_left > 0; --names_left) {
      std::string path;
      for (auto count = random() % 7; count > 0; --count) {
        const std::string& name = names[random() % names.size()];
        if (name == "/" && (path.empty() || path.back() == '/')) continue;
        path += name;
      }
      if (!path.empty() && path.back() == '/') path.pop_back();

      const bool expected = reference::matches(text, path);
      REQUIRE_MESSAGE(pattern->matches(path) == expected, text << " on " << path);
      matched += expected;
      auto state = pattern->start();
      for (std::size_t begin = 0; !path.empty() && begin <= path.size();) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        state = pattern->step(state, std::string_view(path).substr(begin, end - begin));
        begin = end + 1;
      }
      REQUIRE_MESSAGE(pattern->accepts(state) == expected, text << " on " << path);
      if (const auto literal = pattern->literal_path()) {
        REQUIRE_MESSAGE((*literal == path) == expected, text << " on " << path);
        REQUIRE(pattern->matches(*literal));
      }
    }
  }
  CHECK(accepted > 20000);
  CHECK(matched > 10000);
}

TEST_CASE("patterns: parts of long names are found wherever they stand") {
  std::mt19937_64 random(6);
  int found = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string name;
    for (auto count = random() % 40; count > 0; --count) name += "ab\x80\xFF"[random() % 4];
    std::string part;
    for (auto count = 1 + random() % 12; count > 0; --count) part += "ab"[random() % 2];
    const bool expected = name.find(part) != std::string::npos;
    REQUIRE_MESSAGE(Pattern::parse("*" + part + "*")->matches(name) == expected,
                    part << " in " << name);
    found += expected;
  }
  CHECK(found > 1000);
  CHECK(found < 19000);
}

TEST_CASE("patterns: the case of letters is ignored on request, that of A to Z alone") {
  const auto matches = [](std::string_view text, std::string_view path) {
    return Pattern::parse(text, LetterCase::kIgnored)->matches(path);
  };
  CHECK(matches("Model/LAYERS/*/Weight", "model/Layers/0/weighT"));
  CHECK(matches("**/*NORM*", "a/some_long_LayerNorm_of_many_letters"));
  CHECK(matches("[A-C]x", "bX"));
  CHECK(matches("[a-c]x", "BX"));
  CHECK_FALSE(matches("[!A-C]x", "bx"));
  CHECK(matches("[!A-C]x", "Dx"));
  CHECK(matches("\\A", "a"));
  CHECK(matches("@", "@"));
  CHECK_FALSE(matches("@", "`"));
  CHECK_FALSE(matches("\\[", "{"));
  CHECK_FALSE(matches("\xC3\xA9", "\xC3\x89"));  // e and E with an acute accent
  CHECK(matches("*" + std::string(300, 'Q') + "z", std::string(310, 'q') + "Z"));
  CHECK_FALSE(Pattern::parse("a/B", LetterCase::kIgnored)->is_literal());
  CHECK(Pattern::parse("a/B")->literal_path() == "a/B");
}

TEST_CASE("patterns: ignoring case is to compare in lower case") {
  const auto lower = [](std::string text) {
    for (char& c : text) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    }
    return text;
  };
  std::mt19937_64 random(7);
  const std::vector<std::string> syntax = {"a", "B",    "A",     "b",        "*",        "?",
                                           "/", "{A,b", "}",     "[A-C]",    "[!a]",     "\\A",
                                           "Z", "~1",   "[Y-Z]", "\xC3\xA9", "bAbAbAbAb"};
  const std::vector<std::string> names = {"a",        "B",    "A",     "b",         "Z", "~1",
                                          "\xC3\xA9", "\xFF", "[@`{Z", "aBaBaBaBa", "/"};
  int matched = 0;
  for (int round = 0; round < 50000; ++round) {
    std::string text;
    for (auto count = random() % 6; count > 0; --count) text += syntax[random() % syntax.size()];
    const auto pattern = Pattern::parse(text, LetterCase::kIgnored);
    const auto lowered = Pattern::parse(lower(text));
    REQUIRE(pattern.has_value() == lowered.has_value());
    if (!pattern) continue;
    for (int i = 0; i < 8; ++i) {
      std::string path;
      for (auto count = random() % 5; count > 0; --count) path += names[random() % names.size()];
      REQUIRE_MESSAGE(pattern->matches(path) == lowered->matches(lower(path)),
                      text << " on " << path);
      matched += pattern->matches(path);
    }
  }
  CHECK(matched > 1000);
}

// Backtracking would outlast the universe.
TEST_CASE("patterns: hostile patterns and names come to an end") {
  const std::string name(2000, 'a');
  const std::string deep = repeat("a/", 5000) + "a";
  CHECK_FALSE(Pattern::parse(repeat("*a", 1000) + "b")->matches(name));
  CHECK_FALSE(Pattern::parse(repeat("{*,a*}", 600) + "b")->matches(name));
  CHECK_FALSE(Pattern::parse(repeat("{a,a}", 800) + "b")->matches(name));
  CHECK_FALSE(Pattern::parse(repeat("{", 2047) + "a" + repeat("}", 2047))->matches(name));
  CHECK(Pattern::parse(repeat("{", 2047) + "a" + repeat("}", 2047))->matches("a"));
  CHECK(Pattern::parse("{" + repeat(",", 4093) + "}x")->matches("x"));
  CHECK_FALSE(Pattern::parse(repeat("**/*a/", 30) + "b")->matches(deep));
  CHECK_FALSE(Pattern::parse("[" + repeat("a-b", 1300) + "]")->matches("c"));
}
