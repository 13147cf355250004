#include "espalier/foreign/zip/archive.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"
#include "espalier/base/release.h"
#include "espalier/foreign/zip/inflate.h"
#include "espalier/foreign/zip/inflate_maker.h"
#include "espalier/format/file_set.h"

namespace espalier {
namespace {

// Local headers are read in batches, so that those of a million entries take little memory.
constexpr std::size_t kBatchEntries = 1 << 14;
constexpr std::size_t kMaxArchiveFiles = 0xFFFF;  // ChunkRecord::file

// Bytes of a deflate stream that surely make `length` bytes: incompressible ones take 5 more for
// each block, and before the first come the tables of its codes.
std::uint64_t packed_bytes_for(std::uint64_t length) {
  constexpr std::uint64_t kTables = 1024;
  return length > ~std::uint64_t{0} / 2 ? length : length + length / 256 + kTables;
}

}  // namespace

ZipArchive::ZipArchive(const Extent& where, ByteSpan front, const OpenOptions& options,
                       FileSet& files, Want want, std::vector<std::byte> tail)
    : where_(where),
      front_(front),
      options_(options),
      files_(files),
      want_(std::move(want)),
      stage_(tail.empty() ? Stage::kTail : Stage::kEnd),
      tail_(std::move(tail)) {}

Result<bool> ZipArchive::open() {
  switch (stage_) {
    case Stage::kTail:
      tail_.resize(static_cast<std::size_t>(std::min(where_.length, kZipTailBytes)));
      want_bytes(where_.length - tail_.size(), tail_);
      stage_ = Stage::kEnd;
      return false;
    case Stage::kEnd: {
      auto end = read_zip_end(tail_, where_.length, options_.limits);
      if (!end) {
        if (end.error().offset != Error::kNoOffset) end.error().offset += where_.offset;
        return propagate(end);
      }
      end_ = *end;
      directory_bytes_.resize(static_cast<std::size_t>(end_.directory_bytes));
      want_bytes(end_.directory_offset, directory_bytes_);
      stage_ = Stage::kDirectory;
      return false;
    }
    case Stage::kDirectory: {
      auto directory = ZipDirectory::read(end_, directory_bytes_, where_.offset);
      if (!directory) return propagate(directory);
      directory_ = std::move(*directory);
      made_files_.resize(directory_.entries().size());
      want_headers();
      stage_ = Stage::kHeaders;
      return false;
    }
    case Stage::kHeaders:
      if (auto ok = check_headers(); !ok) return propagate(ok);
      if (next_entry_ < directory_.entries().size()) {
        want_headers();
        return false;
      }
      release_memory(headers_);
      release_memory(header_entries_);
      stage_ = Stage::kOpen;
      return true;
    case Stage::kOpen:
      return true;
  }
  return true;
}

void ZipArchive::want_headers() {
  header_entries_.clear();
  std::size_t size = 0;
  for (; next_entry_ < directory_.entries().size() && header_entries_.size() < kBatchEntries;
       ++next_entry_) {
    if (options_.is_remote && directory_.predict_data_offset(next_entry_)) continue;
    header_entries_.push_back(next_entry_);
    size += kZipLocalBytes + entry(next_entry_).name.size();
  }
  headers_.resize(size);
  std::size_t at = 0;
  for (const std::uint32_t number : header_entries_) {
    const std::size_t length = kZipLocalBytes + entry(number).name.size();
    want_bytes(entry(number).header_offset, MutableByteSpan(headers_).subspan(at, length));
    at += length;
  }
}

Result<void> ZipArchive::check_headers() {
  ByteSpan headers = headers_;
  for (const std::uint32_t number : header_entries_) {
    const std::size_t length = kZipLocalBytes + entry(number).name.size();
    if (auto ok = directory_.check_local_header(number, headers.first(length)); !ok) return ok;
    headers = headers.subspan(length);
  }
  return {};
}

// Copies what is in the front or the tail, and wants the rest.
void ZipArchive::want_bytes(std::uint64_t offset, MutableByteSpan to) {
  if (offset < front_.size()) {
    const auto at = static_cast<std::size_t>(offset);
    const std::size_t length = std::min(to.size(), front_.size() - at);
    std::copy_n(front_.begin() + static_cast<std::ptrdiff_t>(at), length, to.begin());
    to = to.subspan(length);
    offset += length;
  }
  const std::uint64_t tail_begin = where_.length - tail_.size();
  if (stage_ != Stage::kTail && offset + to.size() > tail_begin) {
    const auto skipped = static_cast<std::size_t>(offset < tail_begin ? tail_begin - offset : 0);
    const auto at = static_cast<std::size_t>(offset + skipped - tail_begin);
    std::copy_n(tail_.begin() + static_cast<std::ptrdiff_t>(at), to.size() - skipped,
                to.begin() + static_cast<std::ptrdiff_t>(skipped));
    to = to.first(skipped);
  }
  if (!to.empty()) want_({where_.file, where_.offset + offset, to.size()}, to);
}

std::size_t ZipArchive::want(std::uint32_t number, std::uint64_t length) {
  const ZipEntry& e = entry(number);
  Piece& piece = pieces_.emplace_back();
  piece.entry = number;
  piece.length = std::min(length, e.length);
  const std::uint64_t stored =
      e.is_deflated ? std::min(e.stored, packed_bytes_for(piece.length)) : piece.length;
  const std::uint64_t begin = e.is_predicted ? e.header_offset : e.data_offset;
  // Stored bytes lie in a file that is there, so their number is no lie, but it may be too large
  // for the memory of a 32-bit host: bytes() says so.
  const auto size = narrow_size(e.data_offset - begin + stored);
  piece.fits = size.has_value();
  piece.stored.resize(size.value_or(0));
  if (piece.fits) piece.header_bytes = static_cast<std::size_t>(e.data_offset - begin);
  want_bytes(begin, piece.stored);
  return pieces_.size() - 1;
}

Result<ByteSpan> ZipArchive::bytes(std::size_t ticket) {
  Piece& piece = pieces_[ticket];
  const ZipEntry& e = entry(piece.entry);
  const auto stored = [&] { return ByteSpan(piece.stored).subspan(piece.header_bytes); };
  const auto result = [&]() -> ByteSpan { return e.is_deflated ? piece.inflated : stored(); };
  if (piece.is_ready) return result();
  const std::string name = "the entry '" + std::string(e.name) + "' of the zip archive ";
  const std::uint64_t offset = where_.offset + e.data_offset;
  if (!piece.fits || !narrow_size(piece.length)) {
    return fail(ErrorCode::kLimitExceeded,
                name + "has " + counted(piece.length, "byte") + ", more than fit in memory",
                offset);
  }
  if (e.is_predicted) {
    const ByteSpan header = ByteSpan(piece.stored).first(piece.header_bytes);
    if (auto ok = directory_.check_local_header(piece.entry, header); !ok) return propagate(ok);
  }
  if (e.is_deflated) {
    // The directory's check bounds it by the bytes that are stored.
    piece.inflated.resize(static_cast<std::size_t>(piece.length));
    const auto made = Inflater().run(stored(), piece.inflated);
    if (!made) {
      Error error = made.error();
      error.message = escaped(name) + "cannot be read: " + error.message;
      error.offset = offset;
      return tl::unexpected<Error>(std::move(error));
    }
    piece.inflated.resize(made->made);
    release_memory(piece.stored);
  }
  const ByteSpan all = result();
  if (piece.length == e.length && e.has_crc() &&
      (all.size() < e.length || crc32_after(0, all) != e.crc)) {
    return fail(ErrorCode::kForeignInvalid,
                name + "does not match its size and CRC-32; copy or download the file again",
                offset);
  }
  piece.is_ready = true;
  return all;
}

void ZipArchive::drop(std::size_t ticket) {
  release_memory(pieces_[ticket].stored);
  release_memory(pieces_[ticket].inflated);
}

Result<ZipArchive::Place> ZipArchive::place(std::uint32_t number) {
  const ZipEntry& e = entry(number);
  const std::uint64_t offset = where_.offset + e.data_offset;
  if (!e.is_deflated || e.length == 0) {
    return Place{static_cast<std::uint16_t>(where_.file), offset};
  }
  if (made_files_[number] == 0) {
    if (files_.size() >= kMaxArchiveFiles) {
      return fail(ErrorCode::kLimitExceeded,
                  "the zip archive has more than the " + std::to_string(kMaxArchiveFiles - 1) +
                      " compressed entries that one checkpoint can hold",
                  offset);
    }
    made_files_[number] = static_cast<std::uint16_t>(files_.size());
    files_.push_back({.name = std::string(e.name),
                      .length = e.length,
                      .maker = std::make_shared<InflateMaker>(
                          Extent{where_.file, offset, e.stored},
                          e.has_crc() ? std::optional(e.crc) : std::nullopt, std::string(e.name))});
  }
  return Place{made_files_[number], 0};
}

std::vector<Checksum> ZipArchive::checksums() const {
  std::vector<Checksum> checksums;
  for (const ZipEntry& e : directory_.entries()) {
    if (e.length == 0) continue;
    if (e.is_predicted) checksums.push_back(directory_.header_checksum(e));
    if (e.is_deflated || !e.has_crc()) continue;
    checksums.push_back({where_.offset + e.data_offset, e.length, e.crc, Checksum::Kind::kCrc32});
  }
  return checksums;
}

void ZipArchive::add_notes(Notes& notes) const {
  if (directory_.gap_bytes() == 0) return;
  notes.add({.message = "the zip archive has " + counted(directory_.gap_bytes(), "byte") +
                        " between its entries that belong to none"});
}

}  // namespace espalier
