// Zip archives: the rules for directories, bytes of entries, and files made by inflating.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/zip_maker.h"
#include <doctest/doctest.h>

#include "espalier/foreign/zip/archive.h"
#include "espalier/foreign/zip/inflate_maker.h"
#include "espalier/format/file_set.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

using testing::append_number;
using testing::deflated;
using testing::make_zip;
using testing::ZipPart;

// An archive in memory, and what was wanted of it.
struct Opened {
  std::string bytes;
  OpenOptions options;
  FileSet files{FileEntry{}};
  std::vector<Extent> wanted = {};
  ZipArchive archive;

  // `before` bytes of the file do not belong to the archive; `front` of its bytes are at hand.
  explicit Opened(std::string file, bool is_remote = false, std::size_t front = 0,
                  std::size_t before = 0, const Limits& limits = {})
      : bytes(std::move(file)),
        options{.file_size = bytes.size(), .limits = limits, .is_remote = is_remote},
        archive({0, before, bytes.size() - before}, as_bytes(bytes).subspan(before, front), options,
                files, [this](const Extent& extent, MutableByteSpan to) {
                  REQUIRE(extent.offset + extent.length <= bytes.size());
                  wanted.push_back(extent);
                  const ByteSpan from = as_bytes(bytes).subspan(extent.offset, extent.length);
                  std::copy(from.begin(), from.end(), to.begin());
                }) {}

  Result<void> open() {
    for (;;) {
      const auto is_open = archive.open();
      if (!is_open) return propagate(is_open);
      if (*is_open) return {};
    }
  }

  std::string text(std::string_view name, std::uint64_t length = ~std::uint64_t{0}) {
    const auto bytes_of = archive.bytes(archive.want(*archive.directory().find(name), length));
    return bytes_of ? std::string(as_text(*bytes_of)) : bytes_of.error().message;
  }
};

std::string outcome(const std::string& file, bool is_remote = false) {
  Opened opened(file, is_remote);
  const auto ok = opened.open();
  return ok ? "ok" : std::string(to_string(ok.error().code)) + ": " + ok.error().message;
}

// Entries "a" at 0 and "b" at 34, the directory at 67, the end record at 161.
std::string two_entries() { return make_zip({{"a", "abc"}, {"b", "de"}}); }
constexpr std::size_t kSecond = 34;
constexpr std::size_t kDirectory = 67;
constexpr std::size_t kSecondInDirectory = kDirectory + 47;
constexpr std::size_t kEnd = 161;

std::string zip64(std::uint64_t entries, std::uint64_t size, std::uint64_t offset) {
  std::string record = "PK\x06\x06";
  append_number(record, 44, 8);
  append_number(record, 45, 2);
  append_number(record, 45, 2);
  append_number(record, 0, 8);
  append_number(record, entries, 8);
  append_number(record, entries, 8);
  append_number(record, size, 8);
  append_number(record, offset, 8);
  record += "PK\x06\x07";
  append_number(record, 0, 4);
  append_number(record, kEnd, 8);
  append_number(record, 1, 4);
  return record;
}

TEST_CASE("An archive gives the bytes of its entries") {
  for (const std::size_t before : {0u, 5u}) {
    for (const std::size_t front : {0u, 1u, 40u, 100u}) {
      Opened opened(std::string(before, 'x') + two_entries(), false, front, before);
      REQUIRE(opened.open());
      CHECK(opened.text("a") == "abc");
      CHECK(opened.text("b", 1) == "d");
      CHECK(opened.text("b", 100) == "de");
      CHECK_FALSE(opened.archive.directory().find("c"));
      const auto place = opened.archive.place(1);
      REQUIRE(place);
      CHECK(place->file == 0);
      CHECK(place->offset == before + kSecond + 31);
    }
  }
}

TEST_CASE("An archive may be empty, have comments, folders and ZIP64 records") {
  CHECK(outcome(make_zip({})) == "ok");
  CHECK(outcome(make_zip({{"folder/", ""}, {"folder/a", "1"}})) == "ok");
  std::string records = zip64(0, 0, 0);
  records[56 + 8] = '\0';  // where they begin
  CHECK(outcome(records + make_zip({})) == "ok");
  std::string commented = two_entries();
  commented[kEnd + 20] = 3;
  CHECK(outcome(commented + "abc") == "ok");
  std::string large = two_entries();
  large.insert(kEnd, zip64(2, 94, 67));
  CHECK(outcome(large) == "ok");
  // PyTorch writes such records beside small ones that are full.
  std::fill_n(large.begin() + static_cast<std::ptrdiff_t>(kEnd + 76 + 8), 12, '\xFF');
  CHECK(outcome(large) == "ok");
}

TEST_CASE("Whatever leaves room for two opinions about an archive is refused") {
  struct Case {
    std::function<void(std::string&)> change;
    std::string_view message;
  };
  const auto set = [](std::size_t at, int value) {
    return [=](std::string& file) { file[at] = static_cast<char>(value); };
  };
  const Case cases[] = {
      {[](std::string& f) { f.pop_back(); }, "truncated: the zip archive has no end record"},
      {[](std::string& f) { f.resize(100); }, "truncated: the zip archive has no end record"},
      {[](std::string& f) { f += 'x'; }, "trailing_bytes: the file goes on for 1 byte after"},
      {[](std::string& f) {
         f[kEnd + 20] = 22;
         f += f.substr(kEnd, 20) + std::string(2, '\0');
       },
       "foreign_invalid: two records could end this zip archive"},
      {set(kEnd + 4, 1), "foreign_invalid: the zip archive is one of several parts"},
      {set(kEnd + 8, 1), "foreign_invalid: the zip archive is one of several parts"},
      {[](std::string& f) { f[kEnd + 8] = f[kEnd + 10] = 3; },
       "foreign_invalid: the zip archive claims 3 entries, and its directory has room for 2"},
      {[](std::string& f) { f[kEnd + 8] = f[kEnd + 10] = 1; },
       "foreign_invalid: the zip archive's directory has 47 bytes after its last entry"},
      {set(kEnd + 12, 93), "foreign_invalid: the zip archive's directory does not end where"},
      {set(kEnd + 16, 68), "foreign_invalid: the zip archive's directory does not lie before"},
      {[](std::string& f) { f.insert(0, "prefix"); },
       "foreign_invalid: the zip archive's directory does not end where its end record begins"},
      {[](std::string& f) { f.insert(kEnd, zip64(1, 94, 67)); },
       "foreign_invalid: the two end records of the zip archive disagree"},
      {[](std::string& f) {
         f.insert(kEnd, zip64(2, 94, 67));
         f[kEnd + 4] = 45;
       },
       "foreign_invalid: the ZIP64 end record does not stand directly before its locator"},
      {[](std::string& f) {
         f.insert(kEnd, zip64(2, 94, 67).substr(0, 56) + "x" + zip64(2, 94, 67).substr(56));
       },
       "foreign_invalid: the ZIP64 end record does not stand directly before its locator"},
      {set(kDirectory, 'X'), "foreign_invalid: the zip archive's directory has no entry where its"},
      {set(kDirectory + 8, 1), "foreign_invalid: the entry 'a' of the zip archive is encrypted"},
      {set(kDirectory + 8, 0x40), "foreign_invalid: the entry 'a' of the zip archive is encrypted"},
      {set(kDirectory + 9, 0x20), "foreign_invalid: the entry 'a' of the zip archive is encrypted"},
      {set(kDirectory + 10, 12),
       "foreign_invalid: the entry 'a' of the zip archive is compressed "
       "by method 12"},
      {set(kDirectory + 24, 4),
       "foreign_invalid: the entry 'a' of the zip archive is stored as it "
       "is, but has two sizes"},
      {[](std::string& f) { f[kDirectory + 10] = f[8] = 8, f[kDirectory + 26] = 1; },
       "foreign_invalid: the entry 'a' of the zip archive claims more bytes than"},
      {set(kDirectory + 28, 200),
       "foreign_invalid: an entry of the zip archive's directory reaches "
       "beyond its end"},
      {set(kDirectory + 34, 1),
       "foreign_invalid: the entry 'a' of the zip archive lies in another"},
      {set(kDirectory + 46, '\xFF'),
       "foreign_invalid: an entry of the zip archive has a name that"},
      {set(kDirectory + 46, '\0'), "foreign_invalid: an entry of the zip archive has a name that"},
      {[](std::string& f) { f[kSecondInDirectory + 46] = f[kSecond + 30] = 'a'; },
       "foreign_invalid: the zip archive has two entries with the name 'a'"},
      {set(kSecondInDirectory + 42, 100),
       "foreign_invalid: the entry 'b' of the zip archive does "
       "not lie before the archive's directory"},
      {set(kSecondInDirectory + 45, '\xFF'),
       "foreign_invalid: the entry 'b' of the zip archive "
       "does not lie before the archive's directory"},
      {set(kSecondInDirectory + 42, 33),
       "foreign_invalid: the entry 'a' of the zip archive "
       "overlaps the next one"},
      {set(kSecondInDirectory + 42, 0),
       "foreign_invalid: the entry 'a' of the zip archive "
       "overlaps the next one"},
      {set(kDirectory + 42, 1), "foreign_invalid: the zip archive has 1 byte before its first"},
      {set(0, 'X'), "foreign_invalid: the local header of 'a' in the zip archive is not there"},
      {set(6, 1), "foreign_invalid: the local header of 'a' in the zip archive has other flags"},
      {set(8, 8), "foreign_invalid: the local header of 'a' in the zip archive has other flags"},
      {set(14, 1),
       "foreign_invalid: the local header of 'a' in the zip archive has another size or"},
      {set(18, 2),
       "foreign_invalid: the local header of 'a' in the zip archive has another size or"},
      {set(22, 0),
       "foreign_invalid: the local header of 'a' in the zip archive has another size or"},
      {set(26, 2), "foreign_invalid: the local header of 'a' in the zip archive has another name"},
      {set(30, 'A'),
       "foreign_invalid: the local header of 'a' in the zip archive has another name"},
      {set(28, 1),
       "foreign_invalid: the local header of 'a' in the zip archive makes its entry "
       "overlap the next one"},
  };
  REQUIRE(outcome(two_entries()) == "ok");
  for (const Case& wrong : cases) {
    std::string file = two_entries();
    wrong.change(file);
    CAPTURE(wrong.message);
    CHECK(outcome(file).starts_with(wrong.message));
  }
}

TEST_CASE("A ZIP64 field must hold the numbers that the small ones leave to it") {
  const auto with_extra = [](const std::string& extra) {
    std::string file = make_zip({{"a", "abc"}});
    const std::size_t directory = 34;
    std::fill_n(file.begin() + directory + 20, 8, '\xFF');
    file[directory + 30] = static_cast<char>(extra.size());
    file.insert(directory + 47, extra);
    file[file.size() - 22 + 12] = static_cast<char>(47 + extra.size());
    return file;
  };
  std::string field{'\x01', '\0', '\x10', '\0'};
  append_number(field, 3, 8);
  append_number(field, 3, 8);
  CHECK(outcome(with_extra(field)) == "ok");
  const std::string refused = "foreign_invalid: the entry 'a' of the zip archive has extra fields";
  CHECK(outcome(with_extra(field + field)).starts_with(refused));
  CHECK(outcome(with_extra(field.substr(0, 19))).starts_with(refused));
  CHECK(outcome(with_extra(std::string("\x01\0\x08\0", 4) + std::string(8, '\3')))
            .starts_with(refused));
}

TEST_CASE("A huge directory is refused before memory is taken for it") {
  Limits limits;
  limits.zip_directory_bytes = 93;
  Opened opened(two_entries(), false, 0, 0, limits);
  const auto ok = opened.open();
  REQUIRE_FALSE(ok);
  CHECK(ok.error().code == ErrorCode::kLimitExceeded);
}

TEST_CASE("Gaps between entries are counted") {
  Opened opened(make_zip({{.name = "a", .data = "abc", .descriptor = "gap"}, {"b", "de"}}));
  REQUIRE(opened.open());
  Notes notes;
  opened.archive.add_notes(notes);
  REQUIRE(notes.count() == 1);
  CHECK(notes.listed()[0].message ==
        "the zip archive has 3 bytes between its entries that belong to none");
}

TEST_CASE("Over a network, local headers are predicted, and read where that is in doubt") {
  const std::string descriptor(16, 'd');
  // As PyTorch pads: to a multiple of 64.
  const ZipPart torch{.name = "t/data/0",
                      .data = std::string(64, '1'),
                      .flags = 8,
                      .local_extra = std::string(64 - 38, 'Z'),
                      .descriptor = descriptor};
  const ZipPart numpy{.name = "n", .data = "12", .local_extra = std::string(20, 'N')};
  const ZipPart plain{"p", "345"};
  const ZipPart odd{.name = "o", .data = "6", .local_extra = std::string(7, 'O')};
  const std::string file = make_zip({torch, numpy, plain, odd});
  Opened near(file);
  Opened far(file, true);
  REQUIRE(near.open());
  REQUIRE(far.open());
  for (std::uint32_t i = 0; i < 4; ++i) {
    CHECK(near.archive.entry(i).data_offset == far.archive.entry(i).data_offset);
  }
  CHECK(far.text("n") == "12");
  // The tail has it all.
  CHECK(far.wanted.size() == 1);
  // With entries outside of front and tail.
  const ZipPart big{"big", std::string(100'000, 'b')};
  const ZipPart late{.name = "l", .data = "7", .flags = 8, .descriptor = descriptor};
  Opened far_padded(make_zip({torch, odd, late, big, {"big2", big.data}, numpy}), true, 64);
  REQUIRE(far_padded.open());
  CHECK(far_padded.wanted.size() == 2);
  // PyTorch's padding at another place, between them: where 64 bytes end depends on it.
  const ZipPart padded{.name = "t/data/1", .data = "8", .local_extra = std::string(25, 'Z')};
  Opened far_torch(make_zip({big, padded, {"big2", big.data}}), true);
  REQUIRE(far_torch.open());
  CHECK(far_torch.archive.entry(1).is_predicted);
  CHECK(far_torch.archive.entry(1).data_offset % 64 == 0);
  CHECK(far_torch.wanted.size() == 1);
  Opened near_padded(far_padded.bytes, false, 64);
  REQUIRE(near_padded.open());
  CHECK(near_padded.wanted.size() == 5);
}

TEST_CASE("Over a network, no data are taken that begin elsewhere than a header says") {
  const std::string gap = std::string(17, '\0') + "678";
  for (const std::string& behind : {std::string(), gap}) {
    const std::string file = make_zip({{.name = "p", .data = "345", .descriptor = behind},
                                       {.name = "n", .data = "12", .local_extra = gap}});
    Opened near(file);
    REQUIRE(near.open());
    CHECK(near.text("p") == "345");
    Opened far(file, true);
    REQUIRE(far.open());
    std::vector<bool> fits;
    for (const Checksum& checksum : far.archive.checksums()) {
      const ByteSpan range = as_bytes(file).subspan(checksum.offset, checksum.length);
      if (checksum.is_of_header) fits.push_back(crc32_after(0, range) == checksum.crc);
    }
    CHECK(fits == std::vector<bool>{behind.empty(), true});
    if (behind.empty()) {
      CHECK(far.text("p", 2) == "34");
      CHECK(far.text("n") == "12");
      CHECK(far.archive.checksums().size() == 2);
    } else {
      CHECK(far.archive.entry(0).is_predicted);
      CHECK(far.text("p", 1).find("where no known writer puts them") != std::string::npos);
    }
  }
}

TEST_CASE("Deflated entries are inflated, checked, and made into files") {
  const std::string data = "what a deflated entry holds";
  const auto part = [&](const std::string& packed) {
    return ZipPart{.name = "d", .data = data, .packed = packed, .method = 8};
  };
  const std::string good = deflated(data);
  Opened opened(make_zip({part(good), {"s", "12"}}));
  REQUIRE(opened.open());
  CHECK(opened.text("d") == data);
  CHECK(opened.text("d", 6) == "what a");
  const auto place = opened.archive.place(0);
  REQUIRE(place);
  CHECK(place->file == 1);
  CHECK(opened.archive.place(0)->file == 1);
  REQUIRE(opened.files.size() == 2);
  CHECK(opened.files[1].length == data.size());

  // Whatever size the pieces have that the machine is fed with.
  const auto make = [&](const Opened& from, std::size_t step) -> std::string {
    std::string out(data.size(), '-');
    const auto machine = from.files[1].maker->start(std::as_writable_bytes(std::span(out)));
    while (!machine->needs().empty()) {
      Extent extent = machine->needs().front();
      extent.length = std::min<std::uint64_t>(extent.length, step);
      const auto ok =
          machine->feed(extent, as_bytes(from.bytes).subspan(extent.offset, extent.length));
      if (!ok) return ok.error().message;
    }
    const auto ok = machine->finish();
    return ok ? out : ok.error().message;
  };
  // The same as a stream, into room for so many bytes at a time.
  const auto stream = [&](const Opened& from, std::size_t step, std::size_t room) -> std::string {
    std::string out;
    const auto made = from.files[1].maker->stream(data.size());
    for (;;) {
      const auto needs = made->needs();
      Extent extent = needs.empty() ? Extent{} : needs.front();
      extent.length = std::min<std::uint64_t>(extent.length, step);
      std::string next(room, '-');
      const auto ok = made->feed(extent, as_bytes(from.bytes).subspan(extent.offset, extent.length),
                                 std::as_writable_bytes(std::span(next)));
      if (!ok) return ok.error().message;
      out += next.substr(0, *ok);
      const bool stands_still =
          needs.empty() || (!made->needs().empty() && made->needs().front() == extent);
      if (*ok == 0 && stands_still) break;
      if (made->needs().empty() && out.size() == data.size()) break;
    }
    const auto ok = made->finish();
    return ok ? out : ok.error().message;
  };
  for (const std::size_t step : {1u, 2u, 5u, 100u}) {
    CHECK(make(opened, step) == data);
    for (const std::size_t room : {1u, 2u, 7u, 27u, 100u}) {
      CHECK(stream(opened, step, room) == data);
    }
  }

  struct Case {
    std::string packed;
    std::string_view message;
  };
  std::string wrong = good;
  wrong.back() = 'X';
  const Case cases[] = {
      {deflated(data + "!"), "the compressed entry 'd' holds more than the 27 bytes that"},
      {deflated("short"), "the compressed entry 'd' holds 5 bytes and not the 27 that"},
      {good + "beyond", "the compressed entry 'd' ends before the "},
      {good.substr(0, good.size() - 1), "the compressed entry 'd' holds 26 bytes and not the 27"},
      {"\x07" + good, "the compressed entry 'd' is damaged"},
      {wrong, "the compressed entry 'd' does not match its CRC-32"},
  };
  for (const Case& bad : cases) {
    Opened damaged(make_zip({part(bad.packed)}));
    REQUIRE(damaged.open());
    REQUIRE(damaged.archive.place(0));
    CAPTURE(bad.message);
    for (const std::size_t step : {1u, 3u, 100u}) {
      CHECK(make(damaged, step).starts_with(bad.message));
      for (const std::size_t room : {1u, 7u, 100u}) {
        CHECK(stream(damaged, step, room).starts_with(bad.message));
      }
    }
  }
}

TEST_CASE("The machine that inflates takes no bytes but those that it asked for") {
  Opened opened(make_zip({{.name = "d", .data = "12", .packed = deflated("12"), .method = 8}}));
  REQUIRE(opened.open());
  REQUIRE(opened.archive.place(0));
  std::string out(2, '-');
  const auto machine = opened.files[1].maker->start(std::as_writable_bytes(std::span(out)));
  const Extent need = machine->needs().front();
  const auto code_of_feeding = [&](const Extent& extent) {
    const std::vector<std::byte> bytes(static_cast<std::size_t>(extent.length));
    const auto ok = machine->feed(extent, bytes);
    return ok ? ErrorCode::kIncomplete : ok.error().code;
  };
  const ErrorCode refused = ErrorCode::kInvalidArgument;
  CHECK(code_of_feeding({need.file + 1, need.offset, 1}) == refused);
  CHECK(code_of_feeding({need.file, need.offset + 1, 1}) == refused);
  CHECK(code_of_feeding({need.file, need.offset, need.length + 1}) == refused);
  CHECK(machine->finish().error().code == ErrorCode::kIncomplete);
}

TEST_CASE("A checkpoint has room for 65,535 files") {
  std::vector<ZipPart> parts;
  for (int i = 0; i < 0xFFFF; ++i) {
    parts.push_back({.name = std::to_string(i), .data = "1", .packed = deflated("1"), .method = 8});
  }
  Opened opened(make_zip(parts));
  REQUIRE(opened.open());
  for (std::uint32_t i = 0; i < 0xFFFE; ++i) REQUIRE(opened.archive.place(i)->file == i + 1);
  const auto beyond = opened.archive.place(0xFFFE);
  REQUIRE_FALSE(beyond);
  CHECK(beyond.error().code == ErrorCode::kLimitExceeded);
  CHECK(beyond.error().message.find("more than the 65534 compressed entries") != std::string::npos);
}

TEST_CASE("A whole entry must match its CRC-32 unless none was recorded") {
  std::string file = two_entries();
  file[31] = 'X';
  Opened damaged(file);
  REQUIRE(damaged.open());
  CHECK(damaged.text("a").starts_with("the entry 'a' of the zip archive does not match its size"));
  CHECK(damaged.text("a", 2) == "Xb");
  for (const std::size_t at : {std::size_t{14}, kDirectory + 16}) {
    std::fill_n(file.begin() + static_cast<std::ptrdiff_t>(at), 4, '\0');
  }
  Opened unchecked(file);
  REQUIRE(unchecked.open());
  CHECK(unchecked.text("a") == "Xbc");
}

TEST_CASE("Names are also found in any case, however many spellings there are") {
  Opened opened(make_zip({{"x/ab", ""}, {"x/aB", ""}, {"c", ""}, {"x/Ab", ""}}));
  REQUIRE(opened.open());
  const ZipDirectory& directory = opened.archive.directory();
  CHECK(directory.find("x/ab") == 0u);
  CHECK(directory.find("x/aB") == 1u);
  CHECK(directory.find("x/Ab") == 3u);
  CHECK_FALSE(directory.find("x/AB"));
  CHECK(directory.find_in_any_case("X/AB") == 3u);
  CHECK(directory.find_in_any_case("C") == 2u);
  CHECK_FALSE(directory.find_in_any_case("x/abc"));
  CHECK(directory.find_case_twin());
  Opened plain(make_zip({{"a", ""}, {"b", ""}, {"A{", ""}, {"A[", ""}}));
  REQUIRE(plain.open());
  CHECK_FALSE(plain.archive.directory().find_case_twin());
}

TEST_CASE("Names are found among very many, and repeated ones too") {
  std::vector<ZipPart> parts;
  for (int i = 0; i < 20'000; ++i) parts.push_back({"data/" + std::to_string(i), ""});
  Opened opened(make_zip(parts));
  REQUIRE(opened.open());
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    REQUIRE(opened.archive.directory().find("data/" + std::to_string(i)) == i);
  }
  parts.push_back({"data/777", ""});
  CHECK(outcome(make_zip(parts)).find("two entries with the name 'data/777'") != std::string::npos);
}

}  // namespace
}  // namespace espalier
