// Files that begin with a pickle: what they may do to a reader, and what it says.
#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/feed.h"
#include "support/zip_maker.h"
#include <doctest/doctest.h>

#include "espalier/base/little_endian.h"
#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/torch/pickle_checkpoint.h"
#include "espalier/foreign/torch/pickle_opener.h"
#include "espalier/foreign/zip/checksum_plan.h"
#include "espalier/notes.h"
#include "espalier/walker.h"

namespace espalier {
namespace {

using namespace std::string_literals;

Result<Checkpoint> open(const std::string& file, const Limits& limits = {}) {
  PickleOpener opener({.file_size = file.size(), .limits = limits});
  if (auto ok = testing::feed_steps(opener, as_bytes(file), 7); !ok) return propagate(ok);
  return opener.finish();
}

std::string times(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// How a file of torch.save() from before 1.6 begins.
const std::string kLegacy =
    "\x80\x02\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19.\x80\x02M\xE9\x03."s;

// A storage of two floats, as PyTorch names it: the id is left on the stack.
const std::string kStorage =
    "(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0aX\x03\0\0\0cpuK\x02tQ"s;

TEST_CASE("Pickles that no program writes are refused with a sentence") {
  struct Case {
    std::string what;
    std::string pickle;  // after the opcode of the protocol
    ErrorCode code;
    const char* sentence;
  };
  const Case cases[] = {
      {"calls something", "cposix\nsystem\nX\x02\0\0\0id\x85R."s, ErrorCode::kForeignInvalid,
       "would call posix.system"},
      {"calls what was called", "cbuiltins\ngetattr\nX\x01\0\0\0a\x85R)R."s,
       ErrorCode::kForeignInvalid, "would call"},
      {"takes from an empty stack", "R.", ErrorCode::kForeignInvalid, "more from the stack"},
      {"takes below a mark", "N(R.", ErrorCode::kForeignInvalid, "more from the stack"},
      {"has no mark", "t.", ErrorCode::kForeignInvalid, "no mark"},
      {"names nothing", "h\x07.", ErrorCode::kForeignInvalid, "GET 7 names nothing"},
      {"does not end", "N", ErrorCode::kTruncated, "ends in the middle"},
      {"ends in a text", "X\x09\0\0\0a."s, ErrorCode::kTruncated, "ends in the middle"},
      {"goes on", "N.N.", ErrorCode::kTrailingBytes, "2 bytes after its pickle"},
      {"leaves values", "NN.", ErrorCode::kForeignInvalid, "values left"},
      {"has a negative length", "T\xFF\xFF\xFF\xFF."s, ErrorCode::kForeignInvalid, "negative"},
      {"has a length of 2^63", "\x8E\0\0\0\0\0\0\0\x80."s, ErrorCode::kTruncated, "ends in"},
      {"has an unknown opcode", "\xFF.", ErrorCode::kForeignInvalid, "opcode 0xff"},
      {"needs the registry", "\x82\x01.", ErrorCode::kUnsupportedFeature, "outside it"},
      {"needs a buffer", "\x97.", ErrorCode::kUnsupportedFeature, "outside it"},
      {"is of a later protocol", "\x80\x06N.", ErrorCode::kUnsupportedVersion, "protocol 6"},
      {"has a key twice", "}(K\x01NK\x01Nu.", ErrorCode::kForeignInvalid, "same key twice"},
      {"has True and 1", "}(\x88NK\x01Nu.", ErrorCode::kForeignInvalid, "same key twice"},
      {"has a key alone", "}(K\x01u.", ErrorCode::kForeignInvalid, "without a value"},
      {"appends to None", "NNa.", ErrorCode::kForeignInvalid, "adds elements to None"},
      {"sets the state of a text", "X\x01\0\0\0a}b."s, ErrorCode::kForeignInvalid, "the state of"},
      {"sets the state of a class", "cbuiltins\nint\n}b."s, ErrorCode::kForeignInvalid,
       "the state of"},
      {"throws away what a call gives", "cposix\nsystem\nX\x02\0\0\0id\x85R0N."s,
       ErrorCode::kForeignInvalid, "would call posix.system"},
      {"names a class by a number", "K\x01K\x01\x93.", ErrorCode::kForeignInvalid, "no text"},
      {"names no storage", "K\x01Q.", ErrorCode::kForeignInvalid, "not a torch storage"},
      {"names a storage that is not there", kStorage + ".", ErrorCode::kForeignInvalid,
       "storage a is not in the file"},
      {"is nested too deep", times(300, "(") + times(300, "l") + ".", ErrorCode::kLimitExceeded,
       "Limits::depth"},
      {"is shared too often", "]" + times(40, "2\x86") + ".", ErrorCode::kLimitExceeded,
       "more nodes than"},
      {"calls in calls",
       times(50, "ctorch._utils\n_rebuild_parameter\n") + "N" + times(50, "\x88N\x87R") + ".",
       ErrorCode::kForeignInvalid, "nested too deep"},
      {"takes memory", times(20'000'000, "]") + "N.", ErrorCode::kLimitExceeded, "16 times"},
      {"has a module of 4,097 bytes", "c" + times(4'097, "a") + "\nb\n.",
       ErrorCode::kForeignInvalid, "more than 4096 bytes"},
      {"has a name of 4,097 bytes", "ca\n" + times(4'097, "b") + "\n.", ErrorCode::kForeignInvalid,
       "more than 4096 bytes"},
      {"has a text of 4,097 bytes for a name",
       "X\x01\0\0\0aX\x01\x10\0\0"s + times(4'097, "b") + "\x93.", ErrorCode::kForeignInvalid,
       "more than 4096 bytes"},
      {"has a float in digits", "F1.5\n.", ErrorCode::kUnsupportedFeature, "decimal digits"},
      {"has an int that is none", "I1x\n.", ErrorCode::kForeignInvalid, "malformed"},
      {"has a string without its quote", "S'a\n.", ErrorCode::kForeignInvalid, "malformed"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.what);
    const auto opened = open("\x80\x02" + each.pickle);
    REQUIRE_FALSE(opened);
    CHECK(to_string(opened.error().code) == to_string(each.code));
    CHECK(opened.error().message.find(each.sentence) != std::string::npos);
    CAPTURE(opened.error().message);
  }
}

TEST_CASE("Limits of memory and of nodes are for what goes beyond them") {
  const auto is_open = [](const std::string& pickle) {
    const auto opened = open("\x80\x02" + pickle);
    if (!opened) CHECK(opened.error().code == ErrorCode::kLimitExceeded);
    return opened.has_value();
  };
  // Each list takes 20 bytes: an object of 16, and one of 4 on the stack. 16 bytes for each byte of
  // the pickle are allowed, and a MiB.
  const auto lists = [](int count) { return times(count, "]") + times(count - 1, "0") + "."; };
  constexpr int kMost = ((1 << 20) + 2 * 16) / 4;
  CHECK(is_open(lists(kMost)));
  CHECK_FALSE(is_open(lists(kMost + 1)));
  // A tuple in a list, three times: there may be 65536 more nodes than bytes. Two are the roots.
  const auto tuples = [](int size) { return "(" + times(size, "N") + "tq\0000](h\0h\0h\0e."s; };
  constexpr int kSize = 32774;
  REQUIRE(2 + 3 * (1 + kSize) == 65536 + 2 + static_cast<int>(tuples(kSize).size()));
  CHECK(is_open(tuples(kSize)));
  CHECK_FALSE(is_open(tuples(kSize + 1)));
}

TEST_CASE("Instances of Python 2 are made by a module of another name") {
  for (const char* module : {"copy_reg", "copyreg"}) {
    const auto opened =
        open("\x80\x02" + ("c"s + module) +
             "\n_reconstructor\n(cm\nC\ncbuiltins\nobject\nNtR}X\x01\0\0\0aK\x01sb."s);
    REQUIRE_MESSAGE(opened, opened.error().describe());
    REQUIRE(opened->catalog().notes().count() == 1);
    CHECK(opened->catalog().notes().code()[0].message ==
          "Loading this with pickle would call m.C; nothing was run.");
    CHECK(opened->state().find(KeyView::of("a")));
  }
}

// A pickle is run to its end before its calls are looked at. Python makes each call at once.
TEST_CASE("What a call saw of a list or dict that grows afterwards is not shown as what it saw") {
  const std::string begin =
      "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n"
      "X\x01\0\0\0aX\x04\0\0\0metaK\x04tQK\0"s;
  const std::string layout = "K\x02\x85K\x01\x85"s;
  const std::string end = "\x89NtR";
  struct Case {
    const char* what;
    std::string pickle;
    std::size_t notes;
    Kind kind;
    std::size_t children;
  };
  const std::string set =
      "cbuiltins\nset\n(]q\0K\x01"
      "atR"s;
  const std::string instance = "cm\nC\n)\x81}q\0X\x01\0\0\0aK\x01sb"s;
  const Case cases[] = {
      {"a size that is a list",
       begin +
           "]K\x02"
           "aK\x01\x85" +
           end,
       1, Kind::kPlaceholder, 0},
      {"a tuple", begin + layout + end, 0, Kind::kPlaceholder, 0},
      {"metadata that stays", begin + layout + "\x89N}q\0tR"s, 0, Kind::kPlaceholder, 0},
      {"metadata that grows", begin + layout + "\x89N}q\0tRh\0X\x03\0\0\0neg\x88s0"s, 1,
       Kind::kPlaceholder, 0},
      {"the list of a set that stays", set, 0, Kind::kSet, 1},
      {"the list of a set that grows",
       set + "h\0K\x02"
             "a0"s,
       1, Kind::kRecord, 1},
      // One note is on its class.
      {"the state of an instance that stays", instance, 1, Kind::kRecord, 1},
      {"the state of an instance that grows", instance + "h\0X\x01\0\0\0bK\x02s0"s, 1,
       Kind::kRecord, 1},
  };
  const std::string tensor = "\x80\x02" + begin + layout + end;
  for (const Case& each : cases) {
    CAPTURE(each.what);
    const auto opened = open(tensor + each.pickle + "\x86.");
    REQUIRE_MESSAGE(opened, opened.error().describe());
    const NodeRef node = opened->state().child(1);
    CHECK(node.kind() == each.kind);
    CHECK(node.size() == each.children);
    CHECK(opened->catalog().notes().count() == each.notes);
  }
  const auto grown = open("\x80\x02" + instance + "h\0X\x01\0\0\0bK\x02s0."s);
  REQUIRE(grown);
  CHECK(grown->state().find(KeyView::of("a")) == std::nullopt);
}

// Their bytes are the same, their meaning is not.
TEST_CASE("Opaque arrays of two types are two tensors") {
  const auto array = [](const std::string& code) {
    return "cnumpy._core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85"
           "C\x01"
           "b\x87R(K\x01K\x01\x85"
           "cnumpy\ndtype\nX\x02\0\0\0"s +
           code + "\x89\x88\x87R(K\x03X\x01\0\0\0|NNNK\x01K\x01K\0tb\x89"s;
  };
  const auto opened = open("\x80\x03(" + array("S1") + "C\x01xq\0tb"s + array("V1") + "h\0tbt."s);
  REQUIRE_MESSAGE(opened, opened.error().describe());
  REQUIRE(opened->tensor_count() == 2);
  CHECK(opened->tensor(0).block().name == "|S1");
  CHECK(opened->tensor(1).block().name == "|V1");
}

TEST_CASE("Calls in calls do not exhaust the stack, nor shared names of fields the memory") {
  const std::string rebuild =
      "ctorch._tensor\n_rebuild_from_type_v2\nq\0000ctorch\nTensor\nq\0010"s;
  const auto nested = open("\x80\x02" + rebuild + "h\0"s + times(100'000, "(h\0h\x01"s) + ")Nt" +
                           times(99'999, "Nt") + "R.");
  REQUIRE_FALSE(nested);
  CHECK(to_string(nested.error().code) == to_string(ErrorCode::kLimitExceeded));
  const std::string dtype = "cnumpy\ndtype\nX\x02\0\0\0"s;
  const std::string made = "\x89\x88\x87R("s;
  const std::string unit = "B\x20\xA1\x07\0"s + std::string(500'000, 'x');
  const std::string inner = dtype + "V0" + made + "K\x04X\x01\0\0\0|NNNK\0K\x01K\0}("s + unit +
                            "K\x01K\x01K\x01t\x86tbq\x01"s;
  const auto fields = open("\x80\x03" + inner + "0" + dtype + "V8" + made +
                           "K\x04X\x01\0\0\0|N(X\x01\0\0\0nq\x02"s + times(20'000, "h\x02") +
                           "t}h\x02h\x01K\0\x86sK\x08K\x01K\0tb."s);
  REQUIRE_FALSE(fields);
  CHECK(to_string(fields.error().code) == to_string(ErrorCode::kLimitExceeded));
}

// torch.load() would read the archive in it.
TEST_CASE("A pickle that is a tar archive, too, is refused") {
  std::size_t after = 0;
  SUBCASE("of 512 bytes") { after = 355; }
  SUBCASE("of 513 bytes") { after = 356; }
  const auto with_sum = [&](const std::string& sum) {
    std::string length(8, '\0');
    store_le(reinterpret_cast<std::byte*>(length.data()), std::uint64_t{137 + 8 + after});
    return "\x80\x02\x8E" + length + std::string(137, 'a') + sum + std::string(after, 'a') + ".";
  };
  std::int64_t sum = 0;
  for (const char c : with_sum("        ").substr(0, 512)) sum += static_cast<unsigned char>(c);
  const auto octal = [](std::int64_t number) {
    std::ostringstream text;
    text << std::oct << number;
    std::string digits = text.str();
    digits.insert(0, 6 - digits.size(), '0');
    return digits + std::string("\0 ", 2);
  };
  for (const std::int64_t off : {0, 1}) {
    const auto opened = open(with_sum(octal(sum + off)));
    CHECK(opened.has_value() == (off == 1));
    if (!opened) CHECK(opened.error().message.find("tar archive") != std::string::npos);
  }
}

// The limit cut the magic that tells the two, so the error was that of the other format.
TEST_CASE("A tight limit does not turn a file from before PyTorch 1.6 into a plain pickle") {
  const std::string file =
      "\x80\x02\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19.\x80\x02M\xE9\x03.\x80\x02}."s;
  const auto opened = open(file, {.pickle_bytes = 16});
  REQUIRE_FALSE(opened);
  CHECK(to_string(opened.error().code) == to_string(ErrorCode::kLimitExceeded));
}

// Each of these took seconds or a gigabyte: what a few bytes name was read or copied every time.
TEST_CASE(
    "Values that are shared a hundred thousand times cost no more than the pickle has bytes") {
  const auto text = [](char opcode, std::uint32_t size, char letter) {
    std::string bytes(1, opcode);
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(size >> shift & 0xFF);
    return bytes + std::string(size, letter);
  };
  const std::string name = text('X', 4000, 'A') + "\x94" + text('X', 4000, 'B') + "\x94";
  // With a pickle that does not end.
  const std::string file = kLegacy + "\x80\x02";
  struct Case {
    const char* what;
    std::string pickle;
    const char* sentence;
  };
  const Case cases[] = {
      {"the name of a class", name + "](" + times(60'000, "h\0h\x01\x93)R"s) + "e",
       "used so often"},
      {"the arguments of calls",
       "(" + times(100'000, "N") +
           "t\x94"
           "cm\nf\n\x94(" +
           times(20'000, "h\x01h\0R0"s) + "t",
       "used so often"},
      {"the dict of counters",
       "}\x94(" + times(60'000, "M\xFF\x01N") + "uccollections\nCounter\n\x94h\0\x85\x94("s +
           times(60'000, "h\x01h\x02R") + "t",
       "used so often"},
      {"the state of instances",
       "}\x94(" + times(60'000, "X\0\0\0\0N"s) + "ucm\nC\n\x94(" +
           times(60'000, "h\x01)\x81h\0b"s) + "t",
       "used so often"},
      {"a key", text('X', 500'000, 'k') + "\x94(" + times(100'000, "}h\0Ns"s) + "t",
       "used so often"},
      {"a text", text('X', 500'000, 'k') + "\x94(" + times(100'000, "h\0"s) + "t", "used so often"},
      {"bytes", text('B', 500'000, 'k') + "\x94(" + times(100'000, "h\0"s) + "t", "used so often"},
      {"the file in place of a storage",
       "ctorch.storage\n_load_from_bytes\n\x94" + text('B', 500'000, 'N').replace(5, 23, file) +
           "\x85\x94K\x02\x85\x94K\x01\x85\x94"
           "ctorch._utils\n_rebuild_tensor_v2\n\x94(" +
           times(20'000, "h\x04(h\0h\x01RK\0h\x02h\x03\x89NtR"s) + "t",
       "used so often"},
      {"a path",
       "cpathlib\nPath\n\x94" + text('X', 500'000, 'k') + "\x85\x94(" +
           times(100'000, "h\0h\x01R"s) + "t",
       "used so often"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.what);
    const auto opened = open("\x80\x04(" + each.pickle + "t.");
    REQUIRE_FALSE(opened);
    CHECK(to_string(opened.error().code) == to_string(ErrorCode::kLimitExceeded));
    CHECK(opened.error().message.find(each.sentence) != std::string::npos);
    CAPTURE(opened.error().message);
  }
  // Different names of the same parts.
  std::string parts;
  for (char i = 0; i < 64; ++i) parts += text('X', 4000, static_cast<char>('0' + i)) + "\x94";
  for (char i = 0; i < 64; ++i) {
    for (char j = 0; j < 64; ++j) parts += std::string("h") + i + 'h' + j + "\x93)R";
  }
  const auto opened = open("\x80\x04(" + parts + "t.");
  REQUIRE_FALSE(opened);
  CHECK(opened.error().message.find("used so often") != std::string::npos);
}

// Beside a tensor, a file opens; what loading it with pickle would do is noted all the same.
TEST_CASE("Calls beside tensors are noted, wherever they hide") {
  const std::string call = "cposix\nsystem\nX\x02\0\0\0id\x85R"s;
  const std::string layout = "K\0K\x02\x85K\x01\x85"s;
  const auto tensor = [](const std::string& offset_size_stride, const std::string& tracked,
                         const std::string& hooks) {
    return "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0"
           "\0aX\x04\0\0\0metaK\x02tQ"s +
           offset_size_stride + tracked + hooks + "tR";
  };
  const std::string plain = tensor(layout, "\x89", "N");
  const std::string dtype = "cnumpy\ndtype\nX\x02\0\0\0f4\x85R"s;
  const auto array = [](const std::string& type) {
    return "cnumpy.core.multiarray\nscalar\n" + type + "C\x04\0\0\0\0\x86R"s;
  };
  struct Case {
    const char* where;
    std::string pickle;
    std::size_t notes;
  };
  const Case cases[] = {
      {"nowhere", plain, 0},
      {"nowhere, with a scalar of numpy", array(dtype), 0},
      {"thrown away", call + "0" + plain, 1},
      {"thrown away in the middle", plain + call + "0", 1},
      {"as hooks", tensor(layout, "\x89", call), 1},
      {"in place of a bool", tensor(layout, call, "N"), 2},
      {"as the name of nothing", plain + "cposix\nsystem\n\x86"s, 1},
      {"beside the dtype", array(dtype + call + "0"), 1},
      {"in the arguments of the dtype", array("cnumpy\ndtype\nX\x02\0\0\0f4"s + call + "\x86R"), 1},
      {"as what a factory would be", plain + "ccollections\ndefaultdict\n" + call + "\x85R\x86", 2},
  };
  for (const Case& each : cases) {
    CAPTURE(each.where);
    const auto opened = open("\x80\x02" + each.pickle + ".");
    REQUIRE_MESSAGE(opened, opened.error().describe());
    const auto& notes = opened->catalog().notes();
    CHECK(notes.count() == each.notes);
    if (each.notes == 0) continue;
    CHECK(std::any_of(notes.listed().begin(), notes.listed().end(), [](const Note& note) {
      return note.kind == Note::Kind::kCode &&
             note.message.find(" posix.system") != std::string::npos;
    }));
  }
}

// Scanners read the first pickle alone, and a program that reads on runs the second.
TEST_CASE("A pickle behind a pickle is told by what it names") {
  const std::string first = "\x80\x02N."s;
  const auto says = [&](const std::string& rest) { return open(first + rest).error().message; };
  const std::string evil =
      "\x80\x02"
      "cposix\nsystem\nX\x02\0\0\0id\x85R."s;
  const std::string code =
      ", with another pickle, and loading that would import or call posix.system; nothing was run; "
      "ask its author for a safetensors or .espalier file";
  CHECK(says(evil) == "the file goes on for 26 bytes after its pickle" + code);
  CHECK(says(first + evil) == "the file goes on for 30 bytes after its pickle" + code);
  CHECK(says("\x80\x02"
             "cposix\nsystem\n."s)
            .ends_with(code));
  // One that is longer than what was read.
  const std::string very_long =
      "\x80\x02"
      "cposix\nsystem\nX\0\0\x10\0"s +
      std::string(std::size_t{1} << 20, 'a') + "\x85R.";
  CHECK(says(very_long) == "the file goes on for " + std::to_string(very_long.size()) +
                               " bytes after its pickle" + code);
  CHECK(says(first) ==
        "the file goes on for 4 bytes after its pickle, with another pickle; nothing was run; "
        "ask its author for a safetensors or .espalier file");
  CHECK(says("x") == "the file goes on for 1 byte after its pickle");
}

TEST_CASE("What is data is not noted as code, and no name beside it is taken for data") {
  const auto is_noted = [](const std::string& module, const std::string& name) {
    const auto opened = open("\x80\x02" + ("c" + module) + "\n" + name + "\n.");
    REQUIRE(opened);
    return opened->catalog().notes().code().size() == 1;
  };
  const std::pair<const char*, const char*> data[] = {
      {"torch", "float32"},           {"torch", "bits1x8"},
      {"torch", "HalfStorage"},       {"torch.cuda", "FloatTensor"},
      {"torch", "per_tensor_affine"}, {"torch.distributed.checkpoint.metadata", "Metadata"},
      {"numpy", "float64"},           {"numpy._core.multiarray", "scalar"},
      {"__builtin__", "set"},         {"copy_reg", "_reconstructor"},
      {"collections", "OrderedDict"}, {"pathlib", "PosixPath"}};
  for (const auto& each : data) {
    // Clang 14 captures no structured bindings.
    const char* const module = each.first;
    const char* const name = each.second;
    CAPTURE(name);
    CHECK_FALSE(is_noted(module, name));
    // The same name of another module, a part of it, and an attribute.
    CHECK(is_noted("m", name));
    if (!std::string_view(module).starts_with("torch.distributed.")) {
      CHECK(is_noted(std::string(module) + "x", name));
    }
    CHECK(is_noted(module, std::string(name) + ".x"));
    CHECK(is_noted(module, std::string(name).substr(1)));
  }
  CHECK(is_noted("builtins", ""));
  CHECK(is_noted("builtins", "object bool"));
  CHECK(is_noted("builtins", "eval"));
  CHECK(is_noted("torch", "load"));
}

TEST_CASE("Notes on code come first, and no others take their places") {
  Notes notes;
  for (std::size_t i = 0; i < Notes::kMaxListed + 5; ++i)
    notes.add({Note::Kind::kLoss, "", "lost"});
  notes.add({Note::Kind::kCode, "", "first"});
  notes.add({Note::Kind::kWarning, "", "doubtful"});
  notes.add({Note::Kind::kCode, "", "second"});
  CHECK(notes.count() == Notes::kMaxListed + 8);
  CHECK(notes.listed().size() == Notes::kMaxListed + 2);
  REQUIRE(notes.code().size() == 2);
  CHECK(notes.listed()[0].message == "first");
  CHECK(notes.listed()[1].message == "second");
  CHECK(notes.listed()[2].message == "lost");
  for (std::size_t i = 0; i < 2 * Notes::kMaxListed; ++i)
    notes.add({Note::Kind::kCode, "", "more"});
  CHECK(notes.code().size() == Notes::kMaxListed);
  CHECK(notes.listed().size() == 2 * Notes::kMaxListed);
}

// A million names of eight kilobytes from two texts in the memo would be compared for hours.
TEST_CASE("Names of code are bounded in number and in work") {
  std::string many;
  for (int i = 0; i < 3000; ++i) many += "cm\nC" + std::to_string(i) + "\n0";
  const auto opened = open("\x80\x02" + many + "N.");
  REQUIRE(opened);
  CHECK(opened->catalog().notes().code().size() == Notes::kMaxListed);
  const std::string text = "X\0\x10\0\0"s + times(4'096, "a");
  const auto long_names = open("\x80\x04" + text + "\x94" + text + "\x94\x30\x30" +
                               times(60'000, "h\0h\1\x93\x30"s) + "N.");
  REQUIRE_FALSE(long_names);
  CHECK(to_string(long_names.error().code) == to_string(ErrorCode::kLimitExceeded));
}

TEST_CASE("What is set on a value that is no instance becomes a record with the value") {
  const auto opened = open(
      "\x80\x02"
      "ctorch\ndevice\nX\x03\0\0\0cpu\x85R}X\x01\0\0\0aK\x01sb."s);
  REQUIRE(opened);
  CHECK(opened->state().at("data")->as_string() == "cpu");
  CHECK(opened->state().at("state/a")->as_int64() == 1);
}

TEST_CASE("An OrderedDict of Python 2 is made of a list of pairs") {
  const std::string begin =
      "\x80\x02"
      "ccollections\nOrderedDict\n]q\0(]q\x01(X\x01\0\0\0bK\x07"
      "e]("s;
  const auto opened = open(begin +
                           "X\x01\0\0\0aK\x08"
                           "ee\x85R}X\x09\0\0\0_metadataK\x05sb."s);
  REQUIRE_MESSAGE(opened, opened.error().describe());
  CHECK(opened->state().label() == "collections.OrderedDict");
  CHECK(opened->state().key(0).text == "b");
  CHECK(opened->state().at("a")->as_int64() == 8);
  CHECK(opened->metadata().size() == 1);
  // What is no pair, or changes after the call, stays an opaque call; without tensors, it is
  // refused.
  CHECK_FALSE(open(begin + "K\x08"
                           "ee\x85R."s));
  CHECK_FALSE(open(begin + "X\x01\0\0\0aK\x08"
                           "ee\x85Rh\x01K\x09"
                           "a0."s));
}

TEST_CASE("A list that holds itself opens, with a null and a note in its place") {
  const auto opened = open(
      "\x80\x02]q\0K\x05"
      "ah\0a."s);
  REQUIRE(opened);
  CHECK(opened->state().size() == 2);
  CHECK(opened->state().child(1).kind() == Kind::kNull);
  CHECK(opened->state().child(1).label() == "pickle.cycle:");
  CHECK(opened->catalog().notes().count() == 1);
  CHECK(opened->catalog().notes().listed()[0].path == "1");
}

TEST_CASE("A memo number beyond all others takes no memory") {
  const auto opened = open("\x80\x02K\x05r\xFF\xFF\xFF\xFFj\xFF\xFF\xFF\xFF\x86."s);
  REQUIRE(opened);
  CHECK(opened->state().child(1).as_int64() == 5);
}

TEST_CASE("Only the dtypes of torch itself are dtypes") {
  const auto opened = open("\x80\x02(ctorch\nfloat32\ncother\nfloat32\nctorch\nfloat7\nt."s);
  REQUIRE(opened);
  const std::string_view labels[] = {"torch.dtype", "python.global", "python.global"};
  for (std::uint32_t i = 0; i < 3; ++i) CHECK(opened->state().child(i).label() == labels[i]);
}

TEST_CASE("The name of a class may have 4,096 bytes") {
  const std::string name = times(4'096, "a");
  const auto by_line = open(
      "\x80\x02"
      "c" +
      name + "\n" + name + "\n.");
  REQUIRE(by_line);
  CHECK(by_line->state().as_string() == name + "." + name);
  const std::string text = "X\0\x10\0\0"s + name;
  CHECK(open("\x80\x02" + text + text + "\x93."));
}

TEST_CASE("Pickles without a magic are known by how protocols 0 and 1 begin") {
  const auto looks = [](std::string_view front) {
    return looks_like_pickle(as_bytes(front), front.size());
  };
  for (const std::string& front :
       {"(dp0\n."s, "(lp1\nI1\na."s, "}q\0."s, "]q\0K\1a."s, "cposix\nsystem\n(S'id'\ntR."s,
        "(S'id'\niposix\nsystem\n."s, "ccollections\nOrderedDict\n)R."s,
        "(i__main__\nThing\n(dp1\nb."s, "(cm.n\nC\no."s}) {
    CAPTURE(front);
    CHECK(looks(front));
  }
  for (const std::string& front :
       {""s, "("s, "c"s, "cat\ndog\nfox\n"s, "cat and\ndog\n."s, "c\n\n."s, "c1\na\n."s, "}q\1."s,
        "(data)"s, "hello, world"s, "import os\nprint\n("s}) {
    CAPTURE(front);
    CHECK_FALSE(looks(front));
  }
  const auto opened = open("(dp0\nS'a'\nI5\ns.");
  REQUIRE(opened);
  CHECK(opened->state().at("a")->as_int64() == 5);
}

TEST_CASE("The opcodes of protocol 0 and those of old classes") {
  // {'a': [1L, True, -2, u'\xe9\u2603', "x\n"], 'o': what a class gives, with x = 1, 't': a
  // tensor on no device}
  const auto opened = open(
      "\x80\x02(dp0\nS'a'\np1\n(lp2\nL1L\naI01\naI-2\naV\xE9\\u2603\np3\naS'x\\n'\nas"
      "S'o'\n(i__main__\nThing\n(dS'x'\nI1\nsbsS't'\n"
      "ctorch._utils\n_rebuild_meta_tensor_no_storage\n(ctorch\nfloat32\n))\x89tRs.");
  REQUIRE_MESSAGE(opened, opened.error().describe());
  std::string text;
  for (Walker walk(opened->state()); walk.next();) {
    const NodeRef node = walk.node();
    text += std::string(walk.path()) + '=' + std::string(kind_name(node.kind()));
    if (const auto number = node.as_int64()) text += std::to_string(*number);
    if (const auto string = node.as_string()) text += *string;
    text += ' ';
  }
  CHECK(text ==
        "=dict a=list a/0=int641 a/1=bool a/2=int64-2 a/3=string\xC3\xA9\xE2\x98\x83 "
        "a/4=stringx\n o=record o/args=tuple o/state=dict o/state/x=int641 t=placeholder ");
  // The name may be that of a function: Python would call it.
  CHECK(opened->state().find(KeyView::of("o"))->label() == "call:__main__.Thing");
  CHECK(opened->catalog().notes().listed()[0].message.find("would call __main__.Thing") !=
        std::string::npos);
}

TEST_CASE("What is made of no tuple is an instance of unknown arguments") {
  for (const std::string& arguments : {"N"s, "K\x05"s, "]K\x05"s + "a"}) {
    const auto opened = open(
        "\x80\x02"
        "cm\nC\n" +
        arguments + "\x81.");
    REQUIRE_FALSE(opened);
    CHECK(opened.error().message.find("would call m.C") != std::string::npos);
  }
}

TEST_CASE("A file of joblib is told, also one that is no pickle from some byte on") {
  const auto opened = open(
      "\x80\x03"
      "cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81\xFF\xFF.");
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == ErrorCode::kUnsupportedFeature);
  CHECK(opened.error().message.find("joblib") != std::string::npos);
}

TEST_CASE("Numbers of protocol 0 are those that both of Python's readers take") {
  for (const std::string& line :
       {"F1.5"s, "I010"s, "I-01"s, "I+5"s, "I 5"s, "I0x5"s, "I"s, "I1_0"s, "L010L"s, "L+5L"s}) {
    CAPTURE(line);
    CHECK(!open("\x80\x02" + line + "\n."));
  }
  const auto zero = open("\x80\x02I0\n.");
  CHECK(zero->state().as_int64() == 0);
  const auto is_false = open("\x80\x02I00\n.");
  CHECK(is_false->state().as_bool() == false);
  const auto negative = open("\x80\x02L-10L\n.");
  CHECK(negative->state().as_int64() == -10);
}

TEST_CASE("Keys that are equal in Python are one, also beside keys that are no texts") {
  const std::string repeated[] = {
      "K\x01NNNK\x01N"s,                                // 1, None, 1
      "K\x01NNN\x88N"s,                                 // 1, None, True
      "K\x01NNNG\x3F\xF0\0\0\0\0\0\0N"s,                // 1, None, 1.0
      "NNNN"s,                                          // None, None
      "G\x3F\xF8\0\0\0\0\0\0NG\x3F\xF8\0\0\0\0\0\0N"s,  // 1.5, 1.5
      "X\x01\0\0\0aNNNX\x01\0\0\0aN"s,                  // 'a', None, 'a'
      "C\x01zNC\x01zN"s,                                // b'z', b'z'
      "K\x01K\x02\x86NK\x01K\x02\x86N"s,                // (1, 2), (1, 2)
      "K\x01K\x02\x86N\x88K\x02\x86N"s,                 // (1, 2), (True, 2)
      "ca\nb\nNca\nb\nN"s,                              // a class twice
      // 2^63 in 9 and 10 bytes, in digits, and as a float; -2^64 in two ways.
      "\x8A\x09\0\0\0\0\0\0\0\x80\0N\x8A\x0A\0\0\0\0\0\0\0\x80\0\0N"s,
      "\x8A\x09\0\0\0\0\0\0\0\x80\0NL9223372036854775808L\nN"s,
      "\x8A\x09\0\0\0\0\0\0\0\x80\0NG\x43\xE0\0\0\0\0\0\0N"s,
      "\x8A\x09\0\0\0\0\0\0\0\0\xFFNG\xC3\xF0\0\0\0\0\0\0N"s,
      "\x8A\x09\x01\0\0\0\0\0\0\0\0NNNK\x01N"s,  // 1 in 9 bytes, None, 1
  };
  for (const std::string& items : repeated) {
    CAPTURE(items);
    const auto opened = open("\x80\x02}(" + items + "u.");
    REQUIRE(!opened);
    CHECK(opened.error().code == ErrorCode::kForeignInvalid);
    CHECK(opened.error().message.find("same key twice") != std::string::npos);
  }
  const std::string different[] = {
      "NNK\0N\x88NX\x01\0\0\0001NC\x01"s +
          "1NG\x3F\xF8\0\0\0\0\0\0N"s,                         // None, 0, True, '1', b'1', 1.5
      "K\x01K\x02\x86NK\x02K\x01\x86NK\x01\x85K\x02\x86N)N"s,  // (1, 2), (2, 1), ((1,), 2), ()
      "ca\nb\nNca\nc\nNX\x03\0\0\0a.bN"s,                      // two classes and a text
      "G\x7F\xF8\0\0\0\0\0\0NG\x7F\xF8\0\0\0\0\0\0N"s,         // NaN is not itself
      // 2^63, 2^63 + 1, -2^63, 2^64 and both infinities.
      "\x8A\x09\0\0\0\0\0\0\0\x80\0N\x8A\x09\x01\0\0\0\0\0\0\x80\0NG\xC3\xE0\0\0\0\0\0\0N"s +
          "G\x43\xF0\0\0\0\0\0\0NG\x7F\xF0\0\0\0\0\0\0NG\xFF\xF0\0\0\0\0\0\0N"s,
  };
  for (const std::string& items : different) {
    CAPTURE(items);
    const auto opened = open("\x80\x02}(" + items + "u.");
    REQUIRE(opened);
    CHECK(opened->state().label() == "dict.items");
  }
}

TEST_CASE("A pickle that is too large says what to do") {
  const auto opened = open("\x80\x02]N.", {.pickle_bytes = 3});
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == ErrorCode::kLimitExceeded);
  CHECK(opened.error().message ==
        "the pickle has more than the 3 bytes that Limits::pickle_bytes allows; save its values "
        "with espalier.save()");
}

TEST_CASE("A dict that opens as a list of pairs has a note") {
  const auto opened = open("\x80\x02}(X\x01\0\0\0a}K\x01K\x02\x86NsX\x01\0\0\0b}u."s);
  REQUIRE_MESSAGE(opened, opened.error().describe());
  const Notes& notes = opened->catalog().notes();
  REQUIRE(notes.count() == 1);
  CHECK(notes.listed()[0].kind == Note::Kind::kWarning);
  CHECK(notes.listed()[0].path == "a");
  CHECK(notes.listed()[0].message ==
        "This dict has keys other than texts and integers of 64 bits; it is a list of pairs.");
}

TEST_CASE("An archive of PyTorch holds its folder, and no arrays of NumPy beside it") {
  const auto open_archive = [](const std::vector<testing::ZipPart>& parts) -> Result<Checkpoint> {
    const std::string file = testing::make_zip(parts);
    AnyOpener opener({.file_size = file.size()});
    if (auto ok = testing::feed_steps(opener, as_bytes(file), 1000); !ok) return propagate(ok);
    return opener.finish();
  };
  const testing::ZipPart pickle = {.name = "archive/data.pkl", .data = "\x80\x02}."};
  const testing::ZipPart array = {.name = "w.npy", .data = "x"};
  for (const auto& parts : {std::vector{pickle, array}, std::vector{array, pickle}}) {
    const auto both = open_archive(parts);
    REQUIRE_FALSE(both);
    CHECK(both.error().code == ErrorCode::kForeignInvalid);
    CHECK(both.error().message ==
          "the archive is both a file of PyTorch and an .npz, and programs take either of them");
  }
  const auto more = open_archive({pickle,
                                  {.name = "readme", .data = "x"},
                                  {.name = "other/data", .data = "x"},
                                  {.name = "folder/", .data = ""}});
  REQUIRE_MESSAGE(more, more.error().describe());
  REQUIRE(more->catalog().notes().count() == 1);
  CHECK(more->catalog().notes().listed()[0].kind == Note::Kind::kLoss);
  CHECK(more->catalog().notes().listed()[0].message ==
        "The archive holds 2 files outside archive/, which are not shown.");
  const auto inside = open_archive({pickle, {.name = "archive/extra/w.npy", .data = "x"}});
  REQUIRE_MESSAGE(inside, inside.error().describe());
  CHECK(inside->catalog().notes().count() == 0);
}

TEST_CASE("A deque keeps its longest length, and one that is longer is a record") {
  const auto deque = [](const std::string& longest, const std::string& elements) {
    // Beside a tensor without data, calls are records.
    return open("\x80\x02](ccollections\ndeque\n)" + longest + "\x86R(" + elements +
                "ectorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n"
                "X\x01\0\0\0aX\x04\0\0\0metaK\x02tQK\0K\x02\x85K\x01\x85\x89NtRe."s);
  };
  const auto kept = deque("K\x02", "K\x01K\x05");
  REQUIRE(kept);
  CHECK(kept->state().child(0).label() == "collections.deque[2]");
  CHECK(kept->state().child(0).size() == 2);
  // Python has only [5].
  for (const std::string& longest : {"K\x01"s, "J\xFF\xFF\xFF\xFF"s}) {
    const auto full = deque(longest, "K\x01K\x05");
    REQUIRE(full);
    const NodeRef node = full->state().child(0);
    CHECK(node.label() == "call:collections.deque");
    CHECK(node.find(KeyView::of("args"))->size() == 2);
    CHECK(node.find(KeyView::of("elements"))->size() == 2);
  }
}

// A text of protocol 2, and a length of four bytes.
std::string four(std::size_t number) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xFF);
  return bytes;
}
std::string text_of(const std::string& text) { return "X" + four(text.size()) + text; }

TEST_CASE("A tensor of a class does not exhaust the stack, and only torch's functions make one") {
  const std::string from_type = "ctorch._tensor\n_rebuild_from_type_v2\n";
  const int depth = 20'000;
  const auto nested = open("\x80\x02" + from_type + "q\0"s + "0ctorch\nTensor\nq\x01"s + "0h\0"s +
                           times(depth, "(h\0h\x01"s) + "Nt" + times(depth - 1, "Nt") + "R.");
  REQUIRE_FALSE(nested);
  CHECK(nested.error().message.find("Limits::depth") != std::string::npos);
  // Its state would be read as that of a tensor from before 0.2, and it has none of the arguments.
  const auto old = open("\x80\x02" + from_type + "(ctorch\nFloatTensor\nctorch\nTensor\n)NtR)b.");
  REQUIRE_FALSE(old);
}

TEST_CASE("MEMOIZE takes the number that Python would") {
  // Number 1 is set before number 0, and then again.
  const auto opened = open(
      "\x80\x04"
      "(Nq\x01K\x06q\0K\x07q\x01K\x08\x94h\x02t."s);
  REQUIRE_MESSAGE(opened, opened.error().describe());
  CHECK(opened->state().child(4).as_int64() == 8);
}

TEST_CASE("A numpy dtype whose description is long cannot be repeated for its fields") {
  const std::string dtype = "cnumpy\ndtype\n";
  const auto state = [](const std::string& names, const std::string& fields,
                        const std::string& size) {
    return "(K\x04X\x01\0\0\0|N"s + names + fields + size + "K\x01K\0"s;
  };
  const std::string unit(100'000, 'x');
  const std::string inner = dtype + text_of("V0") + "\x89\x88\x87R" + state("N", "N", "K\0"s) +
                            "}(B"s + four(unit.size()) + unit + "K\x01K\x01K\x01t\x86tbq\x01" + "0";
  const std::string outer =
      dtype + text_of("V8") + "\x89\x88\x87R" +
      state("(" + text_of("n") + "q\x02" + times(400, "h\x02") + text_of("m") + "t",
            "}h\x02h\x01K\0\x86s"s, "K\x08") +
      "tb";
  // There is no field of the last name, so nothing that was made is ever kept.
  const auto opened = open("\x80\x03" + inner + outer + ".");
  REQUIRE_FALSE(opened);
  CHECK(to_string(opened.error().code) == "limit_exceeded");
}

TEST_CASE("The path of an object that is inside itself is made only while it may be") {
  const std::string deep = times(10, "}" + text_of(std::string(790, '/'))) + "]q\0("s;
  const std::string end = "e" + times(10, "s") + ".";
  const auto opened = open("\x80\x02" + deep + times(100'000, "h\0"s) + end);
  REQUIRE_FALSE(opened);
  CHECK(to_string(opened.error().code) == "limit_exceeded");
  CHECK(open("\x80\x02" + deep + "h\0"s + end));
}

// An array of numpy in a pickle of protocol 3.
std::string numpy_array(const std::string& code, const std::string& shape,
                        const std::string& data) {
  return "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85"s + "C\x01" +
         "btR(K\x01" + shape + "cnumpy\ndtype\n" + text_of(code) + "\x89\x88\x87R\x89" + data +
         "tb";
}

TEST_CASE("Arrays of other opaque types are different tensors, although they lie at one place") {
  // Python has one object for all empty bytes.
  const auto opened = open("\x80\x03" + numpy_array("S4", "K\0\x85"s, "C\0q\x01"s) +
                           numpy_array("V4", "K\0\x85"s, "h\x01") +
                           numpy_array("S2", "K\0\x85"s, "h\x01") + "\x87.");
  REQUIRE_MESSAGE(opened, opened.error().describe());
  CHECK(opened->state().child(0).tensor()->block().name == "S4");
  CHECK(opened->state().child(1).tensor()->block().name == "V4");
  CHECK(opened->state().child(2).tensor()->block().name == "S2");
}

// The arguments of _rebuild_tensor_v3: a tensor that has no data, of this shape and dtype.
std::string meta_tensor(const std::string& sizes, const std::string& strides,
                        const std::string& dtype, const std::string& more = "") {
  return "ctorch._utils\n_rebuild_tensor_v3\n((" + text_of("storage") +
         "ctorch.storage\nUntypedStorage\n" + text_of("a") + text_of("meta") + "K\x08tQK\0"s +
         sizes + strides + "\x89Nctorch\n" + dtype + "\n" + more + "tR";
}

TEST_CASE("Tensors of opaque types have one axis at least, also those without data") {
  const auto opened = open("\x80\x02" + meta_tensor(")", ")", "complex32") + ".");
  REQUIRE_MESSAGE(opened, opened.error().describe());
  REQUIRE(opened->state().tensor());
  CHECK(opened->state().tensor()->shape().size() == 1);
  CHECK(opened->state().tensor()->block().name == "torch.complex32");
  const auto large = open(
      "\x80\x02" +
      meta_tensor("\x8A\x08\0\0\0\0\0\0\0\x40K\x08\x86"s, "K\x01K\x01\x86", "complex32") + ".");
  REQUIRE_MESSAGE(large, large.error().describe());
}

TEST_CASE("A set has an element once") {
  const auto size_of = [](const std::string& elements) {
    const auto opened = open("\x80\x04\x8F(" + elements + "\x90.");
    REQUIRE_MESSAGE(opened, opened.error().describe());
    CHECK(opened->state().kind() == Kind::kSet);
    return opened->state().size();
  };
  CHECK(size_of("K\x01K\x01K\x02\x88") == 2);
  CHECK(size_of("K\x01\x88G\x3F\xF0\0\0\0\0\0\0"s) == 1);
  CHECK(size_of(text_of("a") + text_of("a") + text_of("b")) == 2);
  CHECK(size_of("K\x01\x85K\x01\x85K\x02\x85") == 2);
  CHECK(size_of("(K\x01K\x02\x91(K\x02K\x01\x91(K\x02\x91") == 2);
  CHECK(size_of("NK\0\x89"s) == 2);
  const auto frozen = open("\x80\x04(K\x01K\x01\x91.");
  REQUIRE(frozen);
  CHECK(frozen->state().size() == 1);
  const std::string nan = "G\x7F\xF8\0\0\0\0\0\0"s;
  const auto of_nans = open("\x80\x04\x8F(" + nan + "N" + nan + "\x90.");
  REQUIRE(of_nans);
  CHECK(of_nans->state().size() == 2);
  REQUIRE(of_nans->catalog().notes().count() == 1);
  CHECK(of_nans->catalog().notes().listed()[0].kind == Note::Kind::kLoss);
}

TEST_CASE("A torch.Size is made of a tuple or list as it was when the call was made") {
  const auto label_of = [](const std::string& args, const std::string& then) {
    const auto opened = open("\x80\x02](" + meta_tensor("K\x02\x85", "K\x01\x85", "float32") +
                             "ctorch\nSize\n" + args + "\x85R" + then + "e.");
    REQUIRE_MESSAGE(opened, opened.error().describe());
    return std::string(opened->state().child(1).label().value_or(""));
  };
  CHECK(label_of("K\x01K\x02\x86", "") == "torch.Size");
  CHECK(label_of("]q\x05(K\x01K\x02"s + "e", "") == "torch.Size");
  CHECK(label_of("]q\x05(K\x01K\x02"s + "e", "h\x05K\x03"s + "a0") == "call:torch.Size");
  CHECK(label_of("}K\x01K\x02s", "") == "call:torch.Size");
}

TEST_CASE("Attributes of an attribute are lost with a note") {
  const std::string dict = "ccollections\nOrderedDict\n)R";
  const auto set = [](const std::string& value) { return "}" + text_of("more") + value + "sb"; };
  const auto opened = open("\x80\x02" + dict + set(dict + set("K\x05")) + ".");
  REQUIRE_MESSAGE(opened, opened.error().describe());
  CHECK(opened->metadata().size() == 1);
  REQUIRE(opened->catalog().notes().count() == 1);
  const Note& note = opened->catalog().notes().listed()[0];
  CHECK(note.kind == Note::Kind::kLoss);
  CHECK(note.path == "(metadata)/torch.attributes/~2/more");
}

TEST_CASE("A text of protocol 0 has the escapes of Python") {
  const auto text = [](const std::string& escaped) {
    const auto opened = open("\x80\x02S'" + escaped + "'\n.");
    REQUIRE_MESSAGE(opened, opened.error().describe());
    return std::string(*opened->state().as_string());
  };
  CHECK(text(R"(a\101)") == "aA");
  CHECK(text(R"(\0\12\1018)") == "\0\nA8"s);
  CHECK(text(R"(\501)") == "A");  // Python keeps the last 8 bits.
  CHECK(text(R"(\a\b\f\n\r\t\v\\\'\")") == "\a\b\f\n\r\t\v\\'\"");
  CHECK(text(R"(\x41\8\z)") == R"(A\8\z)");
}

TEST_CASE("A frame that goes beyond the file is refused") {
  const auto framed = [](std::size_t bytes) {
    return open("\x80\x04\x95" + four(bytes) + four(0) + "N.");
  };
  CHECK(framed(2));
  const auto refused = framed(3);
  REQUIRE_FALSE(refused);
  CHECK(to_string(refused.error().code) == "truncated");
}

// As an archive that has as many files as there may be.
struct NoRoom final : TorchStorages {
  Result<TorchStorage> find(std::string_view) override {
    return fail(ErrorCode::kForeignInvalid, "no storages");
  }
  Result<TorchStorage> keep(ByteSpan) override {
    return fail(ErrorCode::kLimitExceeded, "no room for the bytes");
  }
};

TEST_CASE("Bytes in a pickle that cannot be kept are an error") {
  const std::string array =
      "cnumpy._core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85"
      "C\x01"
      "b\x87R(K\x01K\x01\x85"
      "cnumpy\ndtype\nX\x02\0\0\0u1\x89\x88\x87R\x89"
      "C\x01xtb"s;
  const std::string file = kLegacy + "\x80\x02}.\x80\x02" + kStorage +
                           ".\x80\x02]X\x01\0\0\0aa.\x02\0\0\0\0\0\0\0"s + "two-nums";
  const std::string tensor =
      "ctorch._utils\n_rebuild_tensor_v2\n(ctorch.storage\n_load_from_bytes\nB" +
      four(file.size()) + file + "\x85RK\0K\x02\x85K\x01\x85\x89NtR"s;
  for (const std::string& value : {array, tensor}) {
    const std::string pickle = "\x80\x03" + value + ".";
    CHECK(open(pickle));
    const auto graph = run_pickle(as_bytes(pickle), 0);
    REQUIRE(graph);
    NoRoom storages;
    Notes notes;
    const auto tables = torch_tables(*graph, storages, false, {}, notes, nullptr);
    REQUIRE_FALSE(tables);
    CHECK(tables.error().code == ErrorCode::kLimitExceeded);
    CHECK(tables.error().message.find("no room for the bytes") != std::string::npos);
  }
}

TEST_CASE("Names of code in the file of a storage are bounded in work, too") {
  const std::string name = "X\0\x10\0\0"s + times(4'096, "a");
  const std::string names = name + "\x94" + name + "\x94\x30\x30" + times(4'000, "h\0h\1\x93\x30"s);
  const auto with = [](const std::string& before) {
    const std::string file = kLegacy + "\x80\x02}.\x80\x04" + before + kStorage +
                             ".\x80\x02]X\x01\0\0\0aa.\x02\0\0\0\0\0\0\0"s + "two-nums";
    return open("\x80\x03" +
                ("ctorch._utils\n_rebuild_tensor_v2\n(ctorch.storage\n_load_from_bytes\nB" +
                 four(file.size()) + file + "\x85RK\0K\x02\x85K\x01\x85\x89NtR"s) +
                ".");
  };
  CHECK(with(""));
  const auto opened = with(names);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == ErrorCode::kLimitExceeded);
  CHECK(opened.error().message.find("names of classes in this pickle") != std::string::npos);
}

// Over a network, headers in a zip archive are predicted and not read.
TEST_CASE("Checksums tell where the bytes of a storage are not where they were predicted to be") {
  const std::string data(8, 'd');
  for (const std::string& behind : {std::string(), std::string(20, '\0')}) {
    const std::string file =
        testing::make_zip({{"archive/data.pkl", "\x80\x02" + kStorage + "."},
                           {.name = "archive/data/a", .data = data, .descriptor = behind}});
    AnyOpener opener({.file_size = file.size(), .is_remote = true});
    REQUIRE(testing::feed_steps(opener, as_bytes(file), 1000));
    const auto opened = opener.finish();
    REQUIRE_MESSAGE(opened, opened.error().describe());
    const ChecksumPlan plan(opened->catalog(), 1 << 20);
    std::vector<std::uint32_t> crcs;
    for (const Extent& piece : plan.pieces()) {
      crcs.push_back(plan.crc(crcs.size(), testing::bytes_at(as_bytes(file), piece)));
    }
    std::vector<Damage> damage;
    std::vector<Error> errors;
    plan.compare(crcs, damage, errors);
    if (behind.empty()) {
      CHECK(damage.empty());
      CHECK(errors.empty());
      continue;
    }
    REQUIRE(errors.size() == 1);
    CHECK(errors[0].code == ErrorCode::kForeignInvalid);
    CHECK(errors[0].message.find("begin elsewhere than predicted") != std::string::npos);
  }
}

}  // namespace
}  // namespace espalier
