#include "espalier/foreign/zip/directory.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"
#include "espalier/base/merge_sort.h"
#include "espalier/base/utf8.h"
#include "espalier/codec/hash.h"
#include "espalier/foreign/zip/inflate.h"
#include "espalier/format/file_set.h"

namespace espalier {
namespace {

constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kLocatorSignature = 0x07064b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kCentralSignature = 0x02014b50;
constexpr std::uint32_t kLocalSignature = 0x04034b50;

constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kLocatorBytes = 20;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kCentralBytes = 46;

// These stand where a field of ZIP64 holds the number.
constexpr std::uint16_t kAllOnes16 = 0xFFFF;
constexpr std::uint32_t kAllOnes32 = 0xFFFFFFFF;

constexpr std::uint16_t kEncryptedFlags = 1u << 0 | 1u << 6 | 1u << 13;
constexpr std::uint16_t kDescriptorFlag = 1u << 3;
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflated = 8;
constexpr std::uint16_t kZip64Field = 1;

// A byte of a deflate stream makes at most so many: 258 for each two bits. Stops a small file from
// making a reader allocate gigabytes.
constexpr std::uint64_t kMostInflated = 1032;

// Without and with the signature, which is optional, and then with sizes of 64 bits.
constexpr std::uint64_t kDescriptorSizes[] = {12, 16, 20, 24};

tl::unexpected<Error> bad(std::string_view message, std::uint64_t offset = Error::kNoOffset) {
  return fail(ErrorCode::kForeignInvalid, message, offset);
}

std::string quoted(std::string_view name) {
  constexpr std::size_t kLongest = 100;
  std::string text = "'";
  text += name.substr(0, kLongest);
  if (name.size() > kLongest) text += "...";
  text += '\'';
  return text;
}

// Whether a number of an old record agrees with its ZIP64 record.
template <class Small>
bool agrees(Small small, std::uint64_t large) {
  return small == static_cast<Small>(~Small{0}) || small == large;
}

// Finds the end record whose comment reaches exactly to the end.
Result<std::size_t> find_end(ByteSpan tail, std::uint64_t before) {
  std::optional<std::size_t> found;
  std::optional<std::size_t> early;
  for (std::size_t at = tail.size() < kEndBytes ? 0 : tail.size() - kEndBytes + 1; at-- > 0;) {
    if (load_le<std::uint32_t>(tail.data() + at) != kEndSignature) continue;
    const std::size_t left = tail.size() - at - kEndBytes;
    const std::size_t comment = load_le<std::uint16_t>(tail.data() + at + 20);
    if (comment == left && found) {
      return bad("two records could end this zip archive, so programs disagree about its contents",
                 before + at);
    }
    if (comment == left) found = at;
    if (comment < left && !early) early = at;
  }
  if (found) return *found;
  if (early) {
    const std::size_t end = *early + kEndBytes + load_le<std::uint16_t>(tail.data() + *early + 20);
    return fail(ErrorCode::kTrailingBytes,
                "the file goes on for " + counted(tail.size() - end, "byte") +
                    " after the end of its zip archive",
                before + end);
  }
  return fail(ErrorCode::kTruncated,
              "the zip archive has no end record; copy or download the file again",
              before + tail.size());
}

}  // namespace

Result<ZipEnd> read_zip_end(ByteSpan tail, std::uint64_t archive_bytes, const Limits& limits) {
  const std::uint64_t before = archive_bytes - tail.size();
  const auto found = find_end(tail, before);
  if (!found) return propagate(found);
  const std::byte* record = tail.data() + *found;
  const auto disk = load_le<std::uint16_t>(record + 4);
  const auto directory_disk = load_le<std::uint16_t>(record + 6);
  const auto disk_entries = load_le<std::uint16_t>(record + 8);
  const auto all_entries = load_le<std::uint16_t>(record + 10);
  const auto small_bytes = load_le<std::uint32_t>(record + 12);
  const auto small_offset = load_le<std::uint32_t>(record + 16);
  std::size_t records_begin = *found;
  ZipEnd end{all_entries, small_offset, small_bytes};
  bool has_disks = (disk != 0 && disk != kAllOnes16) || disk_entries != all_entries ||
                   (directory_disk != 0 && directory_disk != kAllOnes16);

  const bool has_locator = *found >= kLocatorBytes &&
                           load_le<std::uint32_t>(record - kLocatorBytes) == kLocatorSignature;
  if (has_locator) {
    const std::byte* locator = record - kLocatorBytes;
    if (*found < kLocatorBytes + kEnd64Bytes) {
      return bad("the zip archive has no ZIP64 end record before its locator", before + *found);
    }
    records_begin = *found - kLocatorBytes - kEnd64Bytes;
    const std::byte* end64 = tail.data() + records_begin;
    if (load_le<std::uint32_t>(end64) != kEnd64Signature ||
        load_le<std::uint64_t>(end64 + 4) != kEnd64Bytes - 12 ||
        load_le<std::uint64_t>(locator + 8) != before + records_begin) {
      return bad("the ZIP64 end record does not stand directly before its locator",
                 before + records_begin);
    }
    end = {load_le<std::uint64_t>(end64 + 32), load_le<std::uint64_t>(end64 + 48),
           load_le<std::uint64_t>(end64 + 40)};
    has_disks = has_disks || load_le<std::uint32_t>(end64 + 16) != 0 ||
                load_le<std::uint32_t>(end64 + 20) != 0 ||
                load_le<std::uint64_t>(end64 + 24) != end.entries ||
                load_le<std::uint32_t>(locator + 16) > 1;
    if (!agrees(all_entries, end.entries) || !agrees(small_bytes, end.directory_bytes) ||
        !agrees(small_offset, end.directory_offset)) {
      return bad("the two end records of the zip archive disagree", before + records_begin);
    }
  }
  if (has_disks) {
    return bad("the zip archive is one of several parts; join them first", before + *found);
  }
  const std::uint64_t records_offset = before + records_begin;
  if (!range_fits(end.directory_offset, end.directory_bytes, records_offset)) {
    return bad("the zip archive's directory does not lie before its end record", records_offset);
  }
  if (end.directory_offset + end.directory_bytes != records_offset) {
    return bad(
        "the zip archive's directory does not end where its end record begins, so bytes "
        "were put before the archive or into it",
        end.directory_offset + end.directory_bytes);
  }
  if (end.directory_bytes > limits.zip_directory_bytes) {
    return fail(ErrorCode::kLimitExceeded,
                "the zip archive's directory has " + counted(end.directory_bytes, "byte") +
                    " and Limits::zip_directory_bytes allows " +
                    std::to_string(limits.zip_directory_bytes),
                end.directory_offset);
  }
  // Before any memory is taken for the entries.
  if (end.entries > end.directory_bytes / kCentralBytes) {
    return bad("the zip archive claims " + std::to_string(end.entries) +
                   " entries, and its directory has room for " +
                   std::to_string(end.directory_bytes / kCentralBytes),
               records_offset);
  }
  return end;
}

namespace {

// The extra fields of an entry in the directory. Takes from a ZIP64 field what the small ones leave
// to it.
bool read_extra(ByteSpan extra, ZipEntry& entry) {
  bool is_zip64 = false;
  while (!extra.empty()) {
    if (extra.size() < 4) return false;
    const auto id = load_le<std::uint16_t>(extra.data());
    const std::size_t size = load_le<std::uint16_t>(extra.data() + 2);
    if (size > extra.size() - 4) return false;
    ByteSpan field = extra.subspan(4, size);
    extra = extra.subspan(4 + size);
    if (id != kZip64Field) continue;
    if (is_zip64) return false;
    is_zip64 = true;
    for (std::uint64_t* number : {&entry.length, &entry.stored, &entry.header_offset}) {
      if (*number != kAllOnes32) continue;
      if (field.size() < 8) return false;
      *number = load_le<std::uint64_t>(field.data());
      field = field.subspan(8);
    }
  }
  return true;
}

}  // namespace

Result<ZipDirectory> ZipDirectory::read(const ZipEnd& end, ByteSpan bytes, std::uint64_t base) {
  ZipDirectory directory;
  directory.base_ = base;
  directory.entries_.reserve(static_cast<std::size_t>(end.entries));
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < end.entries; ++i) {
    const std::uint64_t offset = base + end.directory_offset + at;
    const std::byte* record = bytes.data() + at;
    if (bytes.size() - at < kCentralBytes || load_le<std::uint32_t>(record) != kCentralSignature) {
      return bad("the zip archive's directory has no entry where its number " +
                     std::to_string(i + 1) + " should be",
                 offset);
    }
    const auto flags = load_le<std::uint16_t>(record + 8);
    const auto method = load_le<std::uint16_t>(record + 10);
    const std::size_t name_bytes = load_le<std::uint16_t>(record + 28);
    const std::size_t extra_bytes = load_le<std::uint16_t>(record + 30);
    const std::size_t comment_bytes = load_le<std::uint16_t>(record + 32);
    const std::size_t all_bytes = kCentralBytes + name_bytes + extra_bytes + comment_bytes;
    if (bytes.size() - at < all_bytes) {
      return bad("an entry of the zip archive's directory reaches beyond its end", offset);
    }
    ZipEntry entry{.name = as_text(bytes.subspan(at + kCentralBytes, name_bytes)),
                   .header_offset = load_le<std::uint32_t>(record + 42),
                   .stored = load_le<std::uint32_t>(record + 20),
                   .length = load_le<std::uint32_t>(record + 24),
                   .crc = load_le<std::uint32_t>(record + 16),
                   .is_deflated = method == kDeflated,
                   .has_descriptor = (flags & kDescriptorFlag) != 0};
    const auto bad_entry = [&](std::string_view message) {
      return bad("the entry " + quoted(entry.name) + " of the zip archive " + std::string(message),
                 offset);
    };
    if (entry.name.empty() || entry.name.find('\0') != std::string_view::npos ||
        find_invalid_utf8(entry.name)) {
      return bad("an entry of the zip archive has a name that is empty or not UTF-8 text", offset);
    }
    if ((flags & kEncryptedFlags) != 0) return bad_entry("is encrypted; unpack the archive first");
    if (method != kStored && method != kDeflated) {
      return bad_entry("is compressed by method " + std::to_string(method) +
                       "; only stored and deflated entries can be read");
    }
    if (!read_extra(bytes.subspan(at + kCentralBytes + name_bytes, extra_bytes), entry)) {
      return bad_entry("has extra fields that are no ZIP64 fields, or more than one of them");
    }
    const auto disk = load_le<std::uint16_t>(record + 34);
    if (disk != 0 && disk != kAllOnes16) return bad_entry("lies in another part of the archive");
    if (!entry.is_deflated && entry.stored != entry.length) {
      return bad_entry("is stored as it is, but has two sizes");
    }
    if (entry.is_deflated && entry.length / kMostInflated > entry.stored) {
      return bad_entry("claims more bytes than its compressed data can hold");
    }
    // What is there at least: the descriptor without its signature.
    const std::uint64_t least =
        kZipLocalBytes + name_bytes + (entry.has_descriptor ? kDescriptorSizes[0] : 0);
    if (!range_fits(entry.header_offset, least, end.directory_offset) ||
        entry.stored > end.directory_offset - entry.header_offset - least) {
      return bad_entry("does not lie before the archive's directory");
    }
    directory.entries_.push_back(entry);
    at += all_bytes;
  }
  if (at != bytes.size()) {
    return bad("the zip archive's directory has " + counted(bytes.size() - at, "byte") +
                   " after its last entry",
               base + end.directory_offset + at);
  }
  if (auto ok = directory.check_order(end); !ok) return propagate(ok);
  if (auto ok = directory.check_names(); !ok) return propagate(ok);
  return directory;
}

// No entry lies in another, which is how a bomb of a few bytes holds petabytes.
Result<void> ZipDirectory::check_order(const ZipEnd& end) {
  std::vector<std::uint32_t> order;
  order.reserve(entries_.size());
  for (std::uint32_t i = 0; i < entries_.size(); ++i) order.push_back(i);
  sort_numbers(order, [&](std::uint32_t a, std::uint32_t b) {
    return entries_[a].header_offset < entries_[b].header_offset;
  });
  const std::uint64_t first =
      order.empty() ? end.directory_offset : entries_[order[0]].header_offset;
  if (first != 0) {
    return bad("the zip archive has " + counted(first, "byte") + " before its first entry", base_);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    ZipEntry& entry = entries_[order[i]];
    entry.next_offset =
        i + 1 < order.size() ? entries_[order[i + 1]].header_offset : end.directory_offset;
    const std::uint64_t least = kZipLocalBytes + entry.name.size() + entry.stored +
                                (entry.has_descriptor ? kDescriptorSizes[0] : 0);
    if (least > entry.next_offset - entry.header_offset) {
      return bad("the entry " + quoted(entry.name) + " of the zip archive overlaps the next one",
                 base_ + entry.header_offset);
    }
  }
  return {};
}

namespace {

char capital(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

int compare_folded(std::string_view a, std::string_view b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const auto [x, y] = std::pair(capital(a[i]), capital(b[i]));
    if (x != y) return x < y ? -1 : 1;
  }
  return a.size() == b.size() ? 0 : a.size() < b.size() ? -1 : 1;
}

std::string capitals(std::string_view text) {
  std::string result(text);
  std::transform(text.begin(), text.end(), result.begin(), capital);
  return result;
}

std::uint64_t folded_hash(std::string_view name) { return hash64(as_bytes(capitals(name))); }

// The order of names with equal hashes: those that differ only in case stand together.
bool is_before(std::string_view a, std::string_view b) {
  const int order = compare_folded(a, b);
  return order != 0 ? order < 0 : a < b;
}

}  // namespace

Result<void> ZipDirectory::check_names() {
  by_name_.reserve(entries_.size());
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    by_name_.emplace_back(folded_hash(entries_[i].name), i);
  }
  // Names with equal hashes stand in the order of the names, so even hashes that were made to be
  // equal cost little.
  merge_sort_runs(by_name_, [&](const Name& a, const Name& b) {
    if (a.first != b.first) return a.first < b.first;
    return is_before(entries_[a.second].name, entries_[b.second].name);
  });
  for (std::size_t i = 1; i < by_name_.size(); ++i) {
    const ZipEntry& entry = entries_[by_name_[i].second];
    if (by_name_[i].first != by_name_[i - 1].first ||
        entry.name != entries_[by_name_[i - 1].second].name) {
      continue;
    }
    return bad("the zip archive has two entries with the name " + quoted(entry.name) +
                   ", so programs disagree about its contents",
               base_ + entry.header_offset);
  }
  return {};
}

std::span<const ZipDirectory::Name> ZipDirectory::names_from(std::string_view name) const {
  const std::uint64_t hash = folded_hash(name);
  const auto at =
      std::lower_bound(by_name_.begin(), by_name_.end(), hash, [&](const Name& a, std::uint64_t) {
        if (a.first != hash) return a.first < hash;
        return is_before(entries_[a.second].name, name);
      });
  return std::span(by_name_).subspan(static_cast<std::size_t>(at - by_name_.begin()));
}

std::optional<std::uint32_t> ZipDirectory::find(std::string_view name) const {
  const auto names = names_from(name);
  if (names.empty() || entries_[names[0].second].name != name) return std::nullopt;
  return names[0].second;
}

std::optional<std::uint32_t> ZipDirectory::find_in_any_case(std::string_view name) const {
  // The first of all spellings.
  const auto names = names_from(capitals(name));
  if (names.empty() || compare_folded(entries_[names[0].second].name, name) != 0)
    return std::nullopt;
  return names[0].second;
}

std::optional<std::uint32_t> ZipDirectory::find_case_twin() const {
  for (std::size_t i = 1; i < by_name_.size(); ++i) {
    const std::uint32_t number = by_name_[i].second;
    if (by_name_[i].first == by_name_[i - 1].first &&
        compare_folded(entries_[number].name, entries_[by_name_[i - 1].second].name) == 0) {
      return number;
    }
  }
  return std::nullopt;
}

Result<void> ZipDirectory::check_local_header(std::uint32_t i, ByteSpan bytes) {
  ZipEntry& entry = entries_[i];
  const std::byte* header = bytes.data();
  const auto bad_header = [&](std::string_view message) {
    return bad(
        "the local header of " + quoted(entry.name) + " in the zip archive " + std::string(message),
        base_ + entry.header_offset);
  };
  if (load_le<std::uint32_t>(header) != kLocalSignature) return bad_header("is not there");
  const auto flags = load_le<std::uint16_t>(header + 6);
  const auto method = load_le<std::uint16_t>(header + 8);
  const auto crc = load_le<std::uint32_t>(header + 14);
  if ((flags & kEncryptedFlags) != 0 || ((flags & kDescriptorFlag) != 0) != entry.has_descriptor ||
      method != (entry.is_deflated ? kDeflated : kStored)) {
    return bad_header("has other flags or another method than the directory says");
  }
  if (load_le<std::uint16_t>(header + 26) != entry.name.size() ||
      as_text(bytes.subspan(kZipLocalBytes, entry.name.size())) != entry.name) {
    return bad_header("has another name than the directory says");
  }
  const auto is_size = [&](std::uint32_t local, std::uint64_t size) {
    return local == size || local == kAllOnes32 || (entry.has_descriptor && local == 0);
  };
  if (!is_size(load_le<std::uint32_t>(header + 18), entry.stored) ||
      !is_size(load_le<std::uint32_t>(header + 22), entry.length) ||
      (crc != entry.crc && !(entry.has_descriptor && crc == 0))) {
    return bad_header("has another size or CRC than the directory says");
  }
  const std::uint64_t room =
      entry.next_offset - entry.header_offset - kZipLocalBytes - entry.name.size() - entry.stored;
  const std::uint64_t extra = load_le<std::uint16_t>(header + 28);
  const std::uint64_t descriptor = entry.has_descriptor ? kDescriptorSizes[0] : 0;
  if (extra + descriptor > room) return bad_header("makes its entry overlap the next one");
  const std::uint64_t begin = entry.header_offset + kZipLocalBytes + entry.name.size() + extra;
  if (entry.is_predicted && begin != entry.data_offset) {
    return bad_header(
        "makes its data begin where no known writer puts them, so programs disagree "
        "about its contents; download the file and open it there");
  }
  entry.data_offset = begin;
  entry.is_predicted = false;

  const std::uint64_t after = room - extra;
  const bool is_descriptor = std::find(std::begin(kDescriptorSizes), std::end(kDescriptorSizes),
                                       after) != std::end(kDescriptorSizes);
  if (!entry.has_descriptor || !is_descriptor) gap_bytes_ += after - descriptor;
  return {};
}

bool ZipDirectory::predict_data_offset(std::uint32_t i) {
  ZipEntry& entry = entries_[i];
  constexpr std::uint64_t kLarge = kAllOnes32;
  const std::uint64_t front = entry.header_offset + kZipLocalBytes + entry.name.size();
  const bool is_large = entry.length >= kLarge || entry.header_offset >= kLarge;
  std::uint64_t descriptor = 0;
  if (entry.has_descriptor) descriptor = is_large ? kDescriptorSizes[3] : kDescriptorSizes[1];
  if (entry.next_offset - front < entry.stored + descriptor) return false;
  const std::uint64_t back = entry.next_offset - descriptor - entry.stored;

  // PyTorch: a padding field of 4 bytes or more, after a ZIP64 field with the sizes or the offset
  // or both.
  constexpr std::uint64_t kPadding = 4;
  constexpr std::uint64_t kAlignment = 64;
  std::uint64_t zip64 = 0;
  if (entry.length >= kLarge) zip64 += 16;
  if (entry.header_offset >= kLarge) zip64 += 8;
  if (zip64 > 0) zip64 += 4;
  const auto aligned = checked_align(front + kPadding + zip64, kAlignment);
  // zipfile: nothing, or a ZIP64 field with both sizes.
  constexpr std::uint64_t kBothSizes = 20;
  if (back != front && back != front + kBothSizes && back != aligned) return false;
  entry.data_offset = back;
  entry.is_predicted = true;
  return true;
}

Checksum ZipDirectory::header_checksum(const ZipEntry& entry) const {
  // The two sizes and the name. They are bytes 26 and on.
  std::array<std::byte, 4> sizes;
  const std::uint64_t name_end = entry.header_offset + kZipLocalBytes + entry.name.size();
  store_le(sizes.data(), static_cast<std::uint16_t>(entry.name.size()));
  store_le(sizes.data() + 2, static_cast<std::uint16_t>(entry.data_offset - name_end));
  return {.offset = base_ + entry.header_offset + kZipLocalBytes - sizes.size(),
          .length = sizes.size() + entry.name.size(),
          .crc = crc32_after(crc32_after(0, sizes), as_bytes(entry.name)),
          .is_of_header = true};
}

}  // namespace espalier
