#include "espalier/foreign/numpy/npz_reader.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/foreign/common/reader_error.h"
#include "espalier/foreign/numpy/format.h"
#include "espalier/foreign/numpy/npy_tensor.h"
#include "espalier/format/file_set.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/format/table_builder.h"

namespace espalier {
namespace {

constexpr std::string_view kSuffix = ".npy";
// What the header of nearly every array fits into; NumPy pads most to 128 bytes.
constexpr std::uint64_t kUsualNpyHeaderBytes = 256;

std::string_view key_of(const ZipEntry& entry) {
  return entry.name.substr(0, entry.name.size() - kSuffix.size());
}

}  // namespace

bool is_npz(const ZipDirectory& directory) {
  const auto entries = directory.entries();
  return std::all_of(entries.begin(), entries.end(), [](const ZipEntry& entry) {
    return entry.name.ends_with(kSuffix) || entry.is_folder();
  });
}

Result<bool> NpzReader::step(ZipArchive& archive) {
  switch (stage_) {
    case Stage::kBegin: {
      const auto entries = archive.directory().entries();
      const std::uint64_t most = archive.options().limits.nodes;
      if (most < 2 || entries.size() > most - 2) {
        return fail(ErrorCode::kLimitExceeded,
                    "the archive has " + counted(entries.size(), "array") +
                        ", and with its roots Limits::nodes allows " + std::to_string(most));
      }
      members_.reserve(entries.size());
      for (std::uint32_t i = 0; i < entries.size(); ++i) {
        if (entries[i].is_folder()) continue;
        members_.push_back({.entry = i, .ticket = archive.want(i, kUsualNpyHeaderBytes)});
      }
      stage_ = Stage::kFronts;
      return false;
    }
    case Stage::kFronts:
      for (Member& member : members_) {
        if (auto ok = read_header(archive, member); !ok) return propagate(ok);
        if (member.wanted == 0) continue;
        archive.drop(member.ticket);
        member.ticket = archive.want(member.entry, member.wanted);
      }
      stage_ = Stage::kHeaders;
      return false;
    case Stage::kHeaders:
      for (Member& member : members_) {
        if (member.wanted == 0) continue;
        if (auto ok = read_header(archive, member); !ok) return propagate(ok);
        if (member.wanted > 0) member.problem = "its .npy header is cut";
      }
      return true;
  }
  return true;
}

Result<void> NpzReader::read_header(ZipArchive& archive, Member& member) {
  const auto bytes = archive.bytes(member.ticket);
  // The archive is wrong, and not this array.
  if (!bytes && archive.entry(member.entry).is_predicted) return propagate(bytes);
  const auto length = bytes ? npy_header_bytes(*bytes) : propagate(bytes);
  member.wanted = 0;
  if (length && *length > bytes->size()) {
    member.wanted = *length;
    return {};
  }
  auto array =
      length ? read_npy_header(bytes->first(static_cast<std::size_t>(*length))) : propagate(length);
  if (!array) {
    member.problem = array.error().message;
    return {};
  }
  member.array = std::move(*array);
  const std::uint32_t most_axes = archive.options().limits.rank;
  if (member.array.shape.size() > most_axes) {
    member.problem = "it has " + counted(member.array.shape.size(), "axis") +
                     " and Limits::rank allows " + std::to_string(most_axes);
    return {};
  }
  const auto data = npy_data_bytes(member.array);
  const std::uint64_t room = archive.entry(member.entry).length - *length;
  if (!data || (*data != room && !member.array.has_objects)) {
    member.problem = "its header asks for " +
                     (data ? counted(*data, "byte") : "more than 2^63 bytes") +
                     " of elements and the archive has " + std::to_string(room);
  }
  return {};
}

Result<ForeignParts> NpzReader::build(ZipArchive& archive) {
  ForeignParts parts;
  parts.format = &kNpzFormat;
  TableBuilder builder(archive.options().limits);
  builder.reserve(2 + members_.size(), members_.size());
  builder.container(Kind::kDict);
  builder.container(Kind::kDict);
  builder.open(kStateRoot, members_.size());
  for (Member& member : members_) {
    const std::string_view key = key_of(archive.entry(member.entry));
    builder.key(KeyView::of(key));
    std::optional<Note> note;
    if (member.problem.empty()) {
      const auto place = archive.place(member.entry);
      if (place) {
        note = add_npy_tensor(builder, member.array, place->file,
                              place->offset + member.array.header_bytes);
      } else {
        member.problem = place.error().message;
      }
    }
    if (!member.problem.empty()) {
      builder.null();
      const std::string message = "this array cannot be read: " + member.problem;
      if (parts.files.empty()) {
        // Makes verification fail, and a conversion of the whole.
        FileEntry& damage = parts.files.emplace_back();
        damage.problem.emplace(Error{ErrorCode::kForeignInvalid, Error::kNoOffset, {}, message});
        append_path(damage.problem->path, KeyView::of(key), DigitMark::kNever);
        continue;
      }
      note = Note{.kind = Note::Kind::kLoss, .message = message};
    }
    if (!note) continue;
    if (member.problem.empty() && member.array.has_objects) note->kind = Note::Kind::kCode;
    append_path(note->path, KeyView::of(key), DigitMark::kNever);
    parts.notes.add(std::move(*note));
  }
  builder.open(kMetadataRoot, 0);
  auto tables = builder.finish();
  if (!tables) {
    make_reader_error(tables.error());
    return propagate(tables);
  }
  parts.tables = std::move(*tables);
  return parts;
}

}  // namespace espalier
