#include "espalier/key_map.h"

#include <functional>
#include <random>

#include "support/mapped.h"
#include <doctest/doctest.h>

#include "espalier/map/plan.h"

namespace espalier {
namespace {

using testing::counting;
using testing::leaves_of;
using testing::made_by;
using testing::map_of;
using testing::mapped;
using testing::SmallState;
using testing::SmallTensor;

// An element by its position along each axis.
using At = std::function<std::uint16_t(const std::vector<std::uint64_t>&)>;

SmallTensor filled(const std::vector<std::uint64_t>& shape, const At& at) {
  SmallTensor tensor = counting(shape);
  for (std::size_t i = 0; i < tensor.elements.size(); ++i) {
    std::vector<std::uint64_t> position(shape.size());
    std::uint64_t rest = i;
    for (std::size_t k = shape.size(); k-- > 0;) {
      position[k] = rest % shape[k];
      rest /= shape[k];
    }
    tensor.elements[i] = at(position);
  }
  return tensor;
}

std::uint16_t element(const SmallTensor& tensor, const std::vector<std::uint64_t>& position) {
  std::uint64_t at = 0;
  for (std::size_t k = 0; k < position.size(); ++k) at = at * tensor.shape[k] + position[k];
  return tensor.elements[static_cast<std::size_t>(at)];
}

// There and back again gives the same.
void check_inverse(const KeyMap& map, const SmallState& state, const SmallState& made,
                   const Sizes& sizes = {}) {
  CHECK(mapped(map, made, {.reverse = true, .sizes = sizes}) == state);
}

std::string problem(const KeyMap& map, const SmallState& state,
                    const MapPlanOptions& options = {}) {
  const auto plan = MapPlan::make(map, leaves_of(state), options);
  REQUIRE_FALSE(plan);
  return std::string(to_string(plan.error().code)) + ": " + plan.error().message;
}

std::string parse_problem(std::string_view text) {
  const auto map = KeyMap::parse(text);
  REQUIRE_FALSE(map);
  CHECK(map.error().code == ErrorCode::kMapInvalid);
  return map.error().message;
}

TEST_CASE("Names change, with numbers, choices, tables and texts") {
  const KeyMap map = map_of(R"(
    "layers.{i}.attention.{qk}.weight <-> model.layers.{i}.self_attn.{qk}.weight",
    "layers.{i+1}.norm.{w:weight|bias} <-> model.norms.{i}.{w:scale|shift}",
    "{||_orig_mod.}head.{name*} <-> lm_head.{name}",
    "drop <- rope.freqs"
  )",
                            R"("tables": {"qk": {"wq": "q_proj", "wk": "k_proj"}},)");
  const SmallState state = {{"layers.0.attention.wq.weight", counting({2})},
                            {"layers.0.attention.wk.weight", counting({2}, 7)},
                            {"layers.1.norm.bias", counting({3})},
                            {"head.x", counting({1})}};
  const SmallState made = mapped(map, state);
  CHECK(made == SmallState{{"model.layers.0.self_attn.q_proj.weight", counting({2})},
                           {"model.layers.0.self_attn.k_proj.weight", counting({2}, 7)},
                           {"model.norms.0.shift", counting({3})},
                           {"lm_head.x", counting({1})}});
  check_inverse(map, state, made);
  SmallState with_frequencies = made;
  with_frequencies["rope.freqs"] = counting({4});
  check_inverse(map, state, with_frequencies);
}

TEST_CASE("The pairs of rotary embeddings change places") {
  const KeyMap map = map_of(R"("q [(h p 2) n] <-> k [(h 2 p) n]")", R"("sizes": {"p": "d / 2"},)");
  const SmallState state = {{"q", counting({16, 3})}};
  const MapPlanOptions options = {.config = [](const std::string& word) {
    return word == "d" ? std::optional(8.0) : std::nullopt;
  }};
  const SmallState made = mapped(map, state, options);
  const SmallTensor& q = state.at("q");
  CHECK(made.at("k") == filled({16, 3}, [&](const auto& at) {
          const std::uint64_t h = at[0] / 8;
          const std::uint64_t two = at[0] % 8 / 4;
          const std::uint64_t p = at[0] % 4;
          return element(q, {h * 8 + p * 2 + two, at[1]});
        }));
  CHECK(problem(map, state) ==
        "map_undetermined: rule 1: the size of 'p', (d/2.0), cannot be computed for 'q' [16 3]; "
        "give its sizes with --set or --config");
}

TEST_CASE("Three tensors are one, group by group, and are taken apart again") {
  const KeyMap map = map_of(
      R"("q.{i} [(g r d) n], k.{i} [(g d) n], v.{i} [(g d) n] <-> qkv.{i} [(g (r+1+1) d) n]")",
      R"("sizes": {"d": 2, "g": 3},)");
  SmallState state;
  for (const char* i : {"0", "1"}) {
    const std::uint16_t first = i[0] == '0' ? 0 : 1000;
    state[std::string("q.") + i] = counting({12, 5}, first);
    state[std::string("k.") + i] = counting({6, 5}, static_cast<std::uint16_t>(first + 100));
    state[std::string("v.") + i] = counting({6, 5}, static_cast<std::uint16_t>(first + 200));
  }
  const SmallState made = mapped(map, state);
  REQUIRE(made.size() == 2);
  CHECK(made.at("qkv.0") == filled({24, 5}, [&](const auto& at) {
          const std::uint64_t g = at[0] / 8;
          const std::uint64_t part = at[0] % 8 / 2;
          const std::uint64_t d = at[0] % 2;
          if (part < 2) return element(state.at("q.0"), {g * 4 + part * 2 + d, at[1]});
          return element(state.at(part == 2 ? "k.0" : "v.0"), {g * 2 + d, at[1]});
        }));
  check_inverse(map, state, made);
}

TEST_CASE("Experts and layers are stacked, and numbered as numbers") {
  const KeyMap map = map_of(
      R"("l.{i}.e.{x}.up [f n], l.{i}.e.{x}.gate [f n] <-> l.{i}.gate_up [x n (f (1+1))]",
         "h.{b} [n] <-> stack [(b n)]", "t.{y}.w [o i] <-> t [i y o]")");
  SmallState state;
  for (std::uint16_t i = 0; i < 2; ++i) {
    for (std::uint16_t x = 0; x < 12; ++x) {
      const std::string name = "l." + std::to_string(i) + ".e." + std::to_string(x);
      const auto first = static_cast<std::uint16_t>(1000 * i + 30 * x);
      state[name + ".up"] = counting({2, 3}, first);
      state[name + ".gate"] = counting({2, 3}, static_cast<std::uint16_t>(first + 15));
    }
  }
  for (std::uint16_t b = 0; b < 11; ++b) state["h." + std::to_string(b)] = counting({4}, b);
  state["t.0.w"] = counting({2, 3});
  state["t.1.w"] = counting({2, 3}, 50);
  const SmallState made = mapped(map, state);
  CHECK(made.at("l.1.gate_up") == filled({12, 3, 4}, [&](const auto& at) {
          const std::string name = "l.1.e." + std::to_string(at[0]);
          return element(state.at(name + (at[2] % 2 == 0 ? ".up" : ".gate")), {at[2] / 2, at[1]});
        }));
  CHECK(made.at("stack") == filled({44}, [&](const auto& at) {
          return element(state.at("h." + std::to_string(at[0] / 4)), {at[0] % 4});
        }));
  CHECK(made.at("t") == filled({3, 2, 2}, [&](const auto& at) {
          return element(state.at("t." + std::to_string(at[1]) + ".w"), {at[2], at[0]});
        }));
  check_inverse(map, state, made, {{"b", 11}});
}

TEST_CASE("Sums in sums, the rest of the axes, and reversed ones") {
  const KeyMap map = map_of(
      R"("a [e ...], b [e ...] <-> ab [e+e ...]", "c [(h ((2 p)+s)) n] <-> d [(h ((p 2)+s)) n]",
         "r [-n m] <-> s [m n]")",
      R"("sizes": {"p": 2, "s": 3},)");
  const SmallState state = {{"a", counting({2, 3, 4})},
                            {"b", counting({2, 3, 4}, 100)},
                            {"c", counting({14, 2})},
                            {"r", counting({3, 2})}};
  const SmallState made = mapped(map, state);
  CHECK(made.at("ab").shape == std::vector<std::uint64_t>{4, 3, 4});
  CHECK(made.at("d") == filled({14, 2}, [&](const auto& at) {
          const std::uint64_t in = at[0] % 7;
          const std::uint64_t from = in >= 4 ? in : in % 2 * 2 + in / 2;
          return element(state.at("c"), {at[0] / 7 * 7 + from, at[1]});
        }));
  CHECK(made.at("s") == filled({2, 3}, [&](const auto& at) {
          return element(state.at("r"), {2 - at[1], at[0]});
        }));
  check_inverse(map, state, made);
}

TEST_CASE("Ties, copies and padding") {
  const KeyMap map = map_of(
      R"("embed [v n] = head? [v n], pad [p n] <-> table [v+p n]", "rank{r=}::norm <-> norm",
         "w <-> x = y")",
      R"("sizes": {"r": 2},)");
  const SmallState state = {{"embed", counting({3, 2})},
                            {"head", counting({3, 2})},
                            {"rank0::norm", counting({2})},
                            {"rank1::norm", counting({2})},
                            {"w", counting({1})}};
  const auto plan = MapPlan::make(map, leaves_of(state), {.sizes = {{"p", 1}}});
  REQUIRE_MESSAGE(plan, plan.error().message);
  CHECK(plan->equals().size() == 2);
  const SmallState made = made_by(*plan, state);
  CHECK(made == SmallState{{"table", {{4, 2}, {0, 1, 2, 3, 4, 5, 0, 0}}},
                           {"norm", counting({2})},
                           {"x", counting({1})},
                           {"y", counting({1})}});
  const auto back = MapPlan::make(map, leaves_of(made), {.reverse = true, .sizes = {{"p", 1}}});
  REQUIRE_MESSAGE(back, back.error().message);
  CHECK(back->losses().size() == 1);
  SmallState without_head = state;
  without_head.erase("head");
  CHECK(made_by(*back, made) == without_head);
}

TEST_CASE("Every error names the rule, the names and what to do") {
  const KeyMap experts = map_of(R"("e.{x}.a [f n], e.{x}.b [f n] <-> ab [x f+f n]")");
  const SmallTensor small = counting({2, 2});
  CHECK(problem(experts, {{"e.0.a", small}, {"extra", small}, {"e.0.b", small}, {"z", small}}) ==
        "map_unmatched: no rule takes 'extra' (and 1 more); add a rule, or \"rest\": \"keep\" or "
        "\"drop\"");
  CHECK(problem(experts, {{"e.0.a", small}}) ==
        "map_incomplete: rule 1: found 'e.0.a' but not 'e.0.b'");
  CHECK(
      problem(experts, {{"e.0.a", small}, {"e.0.b", small}, {"e.2.a", small}, {"e.2.b", small}}) ==
      "map_incomplete: rule 1: {x} has 0, 2: 1 is missing");
  CHECK(problem(experts, {{"e.0.a", small}, {"e.0.b", counting({2, 3})}}) ==
        "map_shape: rule 1: 'e.0.b' is [2 3] for [f n]: axis 1 is 3, and n is 2");
  CHECK(problem(experts, {}) ==
        "map_incomplete: rule 1: no tensor fits its left side: e.{x}.a [f n], e.{x}.b [f n] <-> ab "
        "[x f+f "
        "n]; check the names ({x} is a whole number, {x*} any text), and --at if they stand below "
        "another one, or put '?' before the rule if it may be unused");
  CHECK(problem(map_of(R"("a.{i}.w <-> b.{i}.w", "a.0.{s*} <-> c.{s}")"), {{"a.0.w", small}}) ==
        "map_ambiguous: 'a.0.w' is taken by rule 1 and by rule 2; make one of them more exact");
  CHECK(problem(map_of(R"("a <-> c", "b <-> c")"), {{"a", small}, {"b", small}}) ==
        "name_collision: 'a' (rule 1) and 'b' (rule 2) both make 'c'; drop one of them with a "
        "rule, or give it another name");
  CHECK(problem(map_of(R"("a [(p 4)] <-> b [4 p]")"), {{"a", counting({10})}}) ==
        "map_shape: rule 1: 'a' is [10] for [(p 4)]: axis 0 is 10, no multiple of 4, the factor "
        "of p in (p 4)");
  CHECK(
      problem(map_of(R"("q [q n], k [k n] <-> qk [q+k n]")"), {{"qk", small}}, {.reverse = true}) ==
      "map_undetermined: rule 1: the size of 'q' cannot be told from 'qk' [2 2]; give it: --set "
      "q=...");
  CHECK(problem(map_of(R"("a -> b")"), {{"b", small}}, {.reverse = true}) ==
        "map_not_invertible: the map cannot be used in this direction: rule 1 goes the other way "
        "only; --partial leaves such rules out");
}

TEST_CASE("A text that is no map says what is wrong in it") {
  const auto rule = [](const std::string& text) {
    return parse_problem(R"({"espalier_map": 1, "rules": [")" + text + "\"]}");
  };
  CHECK(parse_problem("{\n\n,}") == "the map is not JSON: look at line 3");
  CHECK(parse_problem("{}") == "the map does not begin with \"espalier_map\": 1");
  CHECK(parse_problem(R"({"espalier_map": 1, "rulse": []})") ==
        "there is no member \"rulse\" in a map");
  CHECK(parse_problem(R"({"espalier_map": 1, "tables": {"t": {"a|b": "c"}}, "rules": []})") ==
        "the table \"t\" has 'a|b'; '|', '{', '}' and '`' have a meaning in names");
  CHECK(rule("a [n] <-> b [n m]") == "rule 1: the block [n] has no counterpart on the other side");
  CHECK(rule("a.{i} <-> b") == "rule 1: {i} stands on one side only, and is no axis of the other");
  CHECK(rule("a <-> b [n]") ==
        "rule 1: some tensors have axes and others have none; '[...]' means any");
  CHECK(rule("a") == "rule 1: '<->', '->' or '<-' is missing at the end");
  CHECK(rule("a [n <-> b [n]") == "rule 1: [n <-> b [n]: an unexpected '<'");
  CHECK(rule("a [n] * size <-> b [n]") ==
        "rule 1: some tensors have axes and others have none; '[...]' means any");
}

TEST_CASE("Rules that attack the planner are refused as texts") {
  const auto rule = [](const std::string& text) {
    return parse_problem(R"({"espalier_map": 1, "rules": [")" + text + "\"]}");
  };
  // Of a name that is looked up, no number would be known.
  CHECK(rule("@x.{w*}.{i} [n], y.{w*} [k] <-> z.{w*} [i n], w.{w*} [k]") ==
        "rule 1: {i} of a name with '@' stands on one side only");
  CHECK(rule("x.{i} [n] = y [n] <-> z [i n]") == "rule 1: {i} is missing in a name that '=' joins");
  CHECK(rule("a [n] + b [n] -> c [-n]") ==
        "rule 1: what a sum makes has no reversed axes; reverse those of the tensors");
  CHECK(rule("a [o i] + b [o i] -> c [o i] = d [i o]") ==
        "rule 1: the names of what a sum makes have the same axes");
  // A plain {w} is what {w*} or {w...} says elsewhere.
  for (const std::string name : {"ra{s*}nk{s*}", "ra{s*}nk{s}", "{s}-{s*}"}) {
    CHECK(rule(name + ".x -> drop") == "rule 1: a segment of a name has two captures of text");
  }
  for (const std::string name : {"{s...}.x.{s...}", "{s...}.x.{s}", "{s}.x.{s...}"}) {
    CHECK(rule(name + " -> drop") == "rule 1: a name has two captures of whole segments");
  }
  // 4,096 cells with many words took a minute to check.
  std::string words;
  for (int i = 0; i < 70; ++i) words += " w" + std::to_string(i);
  CHECK(rule("a [" + words + "] <-> b [" + words + "]").ends_with(": more parts than 64"));
  const std::string sums = "[p+q r+s t+u v+w k+l m+n x+y z+c d+e]";
  CHECK(rule("a " + sums + " <-> b " + sums) == "rule 1: the axes make more than 256 blocks");
}

TEST_CASE("Names that a rule multiplies are counted before the first is made") {
  const SmallState state = {{"a", counting({2})}, {"b", counting({2})}};
  // With two tensors that are there, 2^20 + 2 names may be made.
  const KeyMap map = map_of(R"("a [n] <-> rank{k=}.a [n]", "b [n] <-> rank{r=}.b [n]")");
  for (const std::uint64_t count : {(std::uint64_t{1} << 20) - 1, std::uint64_t{1} << 62}) {
    CHECK(problem(map, state, {.sizes = {{"k", 4}, {"r", count}}}) ==
          "limit_exceeded: rule 2: with the rules before it, it makes more than 16,777,216 pieces, "
          "1048578 names of tensors, or 256 MiB of names");
  }
  // Long names before they take memory.
  const std::string name(60'000, 'x');
  const std::string found =
      problem(map_of("\"a [n] <-> rank{r=}." + name + " [n]\""), state, {.sizes = {{"r", 8'000}}});
  CHECK(found.starts_with("limit_exceeded: rule 1: "));
}

TEST_CASE("What must be one tensor is there under each name, and alike") {
  const SmallTensor small = counting({2, 2});
  CHECK(problem(map_of(R"("a = b <-> c")"), {{"a", small}}) ==
        "map_incomplete: rule 1: found 'a' but not 'b'");
  CHECK(mapped(map_of(R"("a = b? <-> c")"), {{"a", small}}) == SmallState{{"c", small}});
  CHECK(problem(map_of(R"("a = b <-> c")"), {{"a", small}, {"b", counting({4})}}) ==
        "map_shape: rule 1: 'b' is not the same tensor as 'a': dtype or shape are different");
  CHECK(problem(map_of(R"("a.{r=} <-> c")"), {{"a.0", small}, {"a.1", counting({1})}}) ==
        "map_shape: rule 1: 'a.1' is not the same tensor as 'a.0': dtype or shape are different");
}

TEST_CASE("An expression that is taken can be read again from the canonical text") {
  const auto text_of = [](const std::string& expression) {
    return R"({"espalier_map": 1, "sizes": {"p": ")" + expression +
           R"("}, "rules": ["a [p] <-> b [p]"]})";
  };
  const auto sum_of = [](int terms) {
    std::string sum = "d";
    for (int i = 1; i < terms; ++i) sum += i % 2 == 0 ? " + d" : " - sqrt(d)";
    return sum;
  };
  for (const std::string& expression : {sum_of(16), std::string("1e308 * d / 3.5"),
                                        "((((((((((((((((d))))))))))))))))" + std::string()}) {
    CAPTURE(expression);
    const auto map = KeyMap::parse(text_of(expression));
    REQUIRE(map);
    const auto again = KeyMap::parse(map->canonical());
    REQUIRE(again);
    CHECK(again->canonical() == map->canonical());
  }
  CHECK(parse_problem(text_of(sum_of(17)))
            .ends_with("nests more than 16 expressions; give a part of it a name, as a size"));
  CHECK(parse_problem(text_of(std::string(17, '(') + "d" + std::string(17, ')')))
            .ends_with("nests more than 16 expressions; give a part of it a name, as a size"));
  CHECK(parse_problem(text_of("d / 1e309")).ends_with("1e309 is too large a number"));
}

TEST_CASE("A size is a whole number, an expression or a list of these") {
  const auto problem_with = [](const std::string& size) {
    const auto map = KeyMap::parse(R"({"espalier_map": 1, "sizes": {"p": )" + size +
                                   R"(}, "rules": ["w [p] <-> v [p]"]})");
    return map ? std::string() : map.error().message;
  };
  for (const char* const size : {"0", "4", R"("d / 2")", R"(["d", "2 * h"])"}) {
    CHECK(problem_with(size).empty());
  }
  for (const char* const size : {"-4", "2.5"}) {
    CHECK(problem_with(size) == R"(the size "p" is no whole number from 0 on)");
  }
  CHECK(problem_with("null") == R"("p" is neither a text nor a list of texts)");
}

TEST_CASE("Blocks of one name and of two sizes are not stored alike") {
  const auto blocks = [](std::string name, std::uint32_t bytes) {
    MapLeaf leaf{std::move(name), true};
    leaf.dtype = DType::kOpaque;
    leaf.shape = {2, 64};
    leaf.block_name = "q";
    leaf.block_elements = 32;
    leaf.block_bytes = bytes;
    return leaf;
  };
  for (const std::string rule :
       {"a = b <-> c", "a [n m] = b [n m] <-> c [n m]", "a [n m], b [k m] <-> c [n+k m]"}) {
    CAPTURE(rule);
    const auto map = map_of('"' + rule + '"');
    CHECK(MapPlan::make(map, {blocks("a", 18), blocks("b", 18)}));
    const auto plan = MapPlan::make(map, {blocks("a", 18), blocks("b", 20)});
    REQUIRE_FALSE(plan);
    CHECK(plan.error().code == ErrorCode::kMapShape);
  }
}

TEST_CASE("Comments and spelling do not change a map's hash") {
  const auto a = KeyMap::parse(R"({"espalier_map": 1, "rules": ["a [n  m] <-> b [(n m)]"], })");
  const auto b = KeyMap::parse(R"({// the same
    "rules": [{"left": ["a [n m]"], "right": ["b [ ( n m ) ]"]}], "espalier_map": 1})");
  const auto c = KeyMap::parse(R"({"espalier_map": 1, "rules": ["a [n m] <-> b [(m n)]"]})");
  REQUIRE(a);
  REQUIRE(b);
  REQUIRE(c);
  CHECK(a->canonical() == b->canonical());
  CHECK(a->hash() == b->hash());
  CHECK(a->hash() != c->hash());
}

}  // namespace
}  // namespace espalier
