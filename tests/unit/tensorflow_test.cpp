// TensorFlow's checkpoints: the keys of slices, as TensorFlow 2.21 wrote them, and what only large
// ones have. The rest is tested
// with files: tests/foreign/tensorflow, and the hostile ones of tests/corrupt.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/check_error.h"
#include <doctest/doctest.h>

#include "espalier/bytes.h"
#include "espalier/foreign/tensorflow/bundle.h"
#include "espalier/foreign/tensorflow/object_graph.h"
#include "espalier/foreign/tensorflow/object_tree.h"
#include "espalier/foreign/tensorflow/slice_key.h"
#include "espalier/foreign/tensorflow/sorted_table.h"
#include "espalier/limits.h"
#include "espalier/notes.h"

namespace espalier {
namespace {

using testing::check_error;

std::string bytes_of(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

TEST_CASE("tensorflow: slices that begin at numbers of every length") {
  const std::vector<std::pair<std::string_view, std::int64_t>> keys = {
      {"0074000101018781", 7},
      {"0074000101018881", 8},
      {"007400010101bf81", 63},
      {"007400010101c04081", 64},
      {"007400010101c07f81", 127},
      {"007400010101c08081", 128},
      {"007400010101dfff81", 8191},
      {"007400010101e0200081", 8192},
      {"007400010101e03fff81", 16383},
      {"007400010101e0400081", 16384},
      {"007400010101efffff81", 1048575},
      {"007400010101f010000081", 1048576},
      {"007400010101f7ffffff81", 134217727},
      {"007400010101f80800000081", 134217728},
      {"007400010101fbffffffff81", 17179869183},
      {"007400010101fc040000000081", 17179869184},
      {"007400010101fdffffffffff81", 2199023255551},
      {"007400010101fe02000000000081", 2199023255552},
      {"007400010101feffffffffffff81", 281474976710655},
      {"007400010101ff0100000000000081", 281474976710656},
      {"007400010101ff01ffffffffffff81", 562949953421311},
      {"007400010101ff0200000000000081", 562949953421312},
      {"007400010101ff7fffffffffffff81", 36028797018963967},
      {"007400010101ff808000000000000081", 36028797018963968},
      {"007400010101ff80ffffffffffffff81", 72057594037927935},
      {"007400010101ff810000000000000081", 72057594037927936},
      {"007400010101ff8fffffffffffffff81", 1152921504606846975},
      {"007400010101ff900000000000000081", 1152921504606846976},
      {"007400010101ff9fffffffffffffff81", 2305843009213693951},
      {"007400010101ffa00000000000000081", 2305843009213693952},
      {"007400010101ffbfffffffffffffff81", 4611686018427387903},
      {"007400010101ffc0400000000000000081", 4611686018427387904}};
  for (const auto& each : keys) {
    // Not as a binding, which Clang's lambdas cannot capture.
    const auto& hex = each.first;
    const auto start = each.second;
    CAPTURE(hex);
    const auto key = read_slice_key(bytes_of(hex));
    REQUIRE(key);
    CHECK(key->name == "t");
    CHECK(key->box == SliceBox{{start, 1}});
    // No byte is left out.
    CHECK(!read_slice_key(bytes_of(hex.substr(0, hex.size() - 2))));
  }
}

TEST_CASE("tensorflow: names and whole axes in the keys of slices") {
  const auto key =
      read_slice_key(bytes_of("00"
                              "6100ff"
                              "ff00"
                              "62"
                              "0001"
                              "0102"
                              "807f"
                              "8146"));
  REQUIRE(key);
  CHECK(key->name == std::string("a\0\xFF"
                                 "b",
                                 4));
  CHECK(key->box == SliceBox{{0, SliceExtent::kWhole}, {1, -58}});
  CHECK(spell_out({{0, SliceExtent::kWhole}, {1, 2}}, std::vector<std::uint64_t>{5, 3}) ==
        SliceBox{{0, 5}, {1, 2}});
  CHECK(!spell_out(key->box, std::vector<std::uint64_t>{5, 3}));
  CHECK(!spell_out({{1, SliceExtent::kWhole}}, std::vector<std::uint64_t>{5}));
  CHECK(!spell_out({{4, 2}}, std::vector<std::uint64_t>{5}));
}

TEST_CASE("tensorflow: keys of an index beyond the limits of a tree") {
  // A header, and one tensor "a".
  const std::string table = bytes_of(
      "00000608011a020801000113610801120412020802180020002808353d33c8f4000000000100000000faa397"
      "6c000000000100000000c0f2a1b0000102610028000000000100000000a1adddf92d083a0e00000000000000"
      "000000000000000000000000000000000000000000000000000000000057fb808b247547db");
  const auto read = [&](const Limits& limits) {
    return SortedTable::read(as_bytes(table), limits);
  };
  const auto whole = read({.nodes = 2, .text_bytes = 1});
  REQUIRE_MESSAGE(whole, whole.error().describe());
  REQUIRE(whole->entries().size() == 2);
  CHECK(whole->entries()[1].key == "a");
  check_error(read({.nodes = 1}), ErrorCode::kLimitExceeded, "", "more than the 1 key that");
  check_error(read({.text_bytes = 0}), ErrorCode::kLimitExceeded, "", "more than the 0 bytes that");
}

TEST_CASE("tensorflow: an object with many children, and with two of one name") {
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) names.push_back("v" + std::to_string(100 + i));
  Bundle bundle;
  // The root, and a variable for each name.
  ObjectGraph graph;
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    bundle.entries.push_back({.name = names[i]});
    graph.children.push_back({i + 1, names[i]});
  }
  graph.nodes.push_back({.children_end = names.size(), .saver = {}});
  for (std::size_t i = 0; i < names.size(); ++i) {
    graph.attributes.push_back({.name = "VARIABLE_VALUE", .full_name = {}, .key = names[i]});
    graph.nodes.push_back({.children_end = names.size(), .attributes_end = i + 1, .saver = {}});
  }
  Notes notes;
  const auto tree = make_object_tree(bundle, graph, {}, notes);
  REQUIRE(tree);
  REQUIRE(tree->branches.size() == 1);
  REQUIRE(tree->branches[0].children.size() == names.size());
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    CHECK(tree->branches[0].children[i].name == names[i]);
    CHECK(tree->branches[0].children[i].number == i);
  }
  for (const std::size_t other : {0u, 15u, 16u, 17u, 38u}) {
    CAPTURE(other);
    ObjectGraph twice = graph;
    twice.children[39].name = names[other];
    const auto refused = make_object_tree(bundle, twice, {}, notes);
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::kForeignInvalid);
    CHECK(refused.error().path == names[other]);
  }
}

}  // namespace
}  // namespace espalier
