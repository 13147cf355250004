#include "espalier/foreign/hdf5/keras_reader.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/foreign/hdf5/format.h"
#include "espalier/foreign/hdf5/tables.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

constexpr std::string_view kWeights = "model.weights.h5";
constexpr std::string_view kConfiguration = "config.json";
constexpr std::string_view kDocuments[] = {kConfiguration, "metadata.json"};

constexpr std::uint64_t kLargeWeights = std::uint64_t{64} << 20;
constexpr std::uint64_t kMostGrowthOfWeights = 200;

}  // namespace

bool is_keras(const ZipDirectory& directory) {
  return directory.find(kWeights) && directory.find(kConfiguration);
}

Result<void> KerasReader::begin(ZipArchive& archive) {
  weights_ = archive.directory().find(kWeights).value_or(0);
  const ZipEntry& weights = archive.entry(weights_);
  // Keras stores them as they are. HDF5 is read here and there, so all is inflated, and dropped
  // when the structures have been read; arrays are inflated again when they are.
  if (weights.is_deflated && weights.length > archive.options().limits.made_bytes) {
    return fail(ErrorCode::kLimitExceeded,
                "the weights of this Keras model are compressed and take " +
                    counted(weights.length, "byte") + ", and Limits::made_bytes allows " +
                    std::to_string(archive.options().limits.made_bytes) +
                    "; unpack it (unzip FILE) and open model.weights.h5");
  }
  // Stops a small file that takes gigabytes when it is listed. Weights shrink to a half at best;
  // those of a fresh model with many zeros, to a hundredth.
  if (weights.is_deflated && weights.length > kLargeWeights &&
      weights.length / kMostGrowthOfWeights > weights.stored) {
    return fail(ErrorCode::kLimitExceeded,
                "the weights of this Keras model are compressed to less than a two-hundredth of " +
                    counted(weights.length, "byte") +
                    "; unpack it (unzip FILE) and open model.weights.h5");
  }
  weights_ticket_ = archive.want(weights_, weights.is_deflated ? weights.length : kFirstReadBytes);
  for (const std::string_view name : kDocuments) {
    const auto entry = archive.directory().find(name);
    if (!entry) continue;
    const std::uint64_t most = archive.options().limits.foreign_header_bytes;
    if (archive.entry(*entry).length > most) {
      return fail(ErrorCode::kLimitExceeded, std::string(name) + " of the Keras model has " +
                                                 counted(archive.entry(*entry).length, "byte") +
                                                 " and Limits::foreign_header_bytes allows " +
                                                 std::to_string(most));
    }
    documents_.push_back({*entry, archive.want(*entry)});
  }
  return {};
}

Result<bool> KerasReader::step(ZipArchive& archive) {
  if (!std::exchange(is_begun_, true)) {
    if (auto ok = begin(archive); !ok) return propagate(ok);
    return false;
  }
  if (!file_) {
    for (const Document& document : documents_) {
      if (auto ok = archive.bytes(document.ticket); !ok) return propagate(ok);
    }
    const auto front = archive.bytes(weights_ticket_);
    if (!front) return propagate(front);
    const ZipEntry& entry = archive.entry(weights_);
    const std::uint64_t begin = entry.is_deflated ? 0 : entry.data_offset;
    file_ = std::make_unique<Hdf5File>(begin, entry.length, archive.options().limits);
    file_->add(begin, front->first(std::min<std::size_t>(front->size(), kFirstReadBytes)));
  }
  if (!archive.entry(weights_).is_deflated) {
    return file_->step([&](std::uint64_t offset, MutableByteSpan to) {
      archive.want_part(weights_, offset - archive.entry(weights_).data_offset, to);
    });
  }
  const auto all = archive.bytes(weights_ticket_);
  if (!all) return propagate(all);
  auto is_done = file_->step([&](std::uint64_t offset, MutableByteSpan to) {
    std::copy_n(all->begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
  });
  if (is_done && *is_done) archive.drop(weights_ticket_);
  return is_done;
}

Result<ForeignParts> KerasReader::build(ZipArchive& archive) {
  ForeignParts parts;
  parts.format = &kKerasFormat;
  std::vector<Hdf5Document> documents;
  for (const Document& document : documents_) {
    const auto bytes = archive.bytes(document.ticket);
    if (!bytes) return propagate(bytes);
    documents.push_back({archive.entry(document.entry).name, as_text(*bytes)});
  }
  std::size_t others = 0;
  for (const ZipEntry& entry : archive.directory().entries()) {
    others += entry.is_folder() ? 0 : 1;
  }
  others -= documents.size() + 1;
  if (others > 0) {
    parts.notes.add({.kind = Note::Kind::kLoss,
                     .message = "the archive has " + counted(others, "further file") +
                                ", assets of layers, which are not read"});
  }
  const Limits& limits = archive.options().limits;
  const auto place = archive.place(weights_);
  if (!place) return propagate(place);
  const Hdf5TreeOptions tree{.keeps_keys = archive.options().keeps_keys,
                             .file = place->file,
                             .is_made = archive.entry(weights_).is_deflated};
  if (auto ok = add_hdf5_tables(*file_, documents, tree, limits, archive.files(), parts); !ok) {
    return propagate(ok);
  }
  return parts;
}

}  // namespace espalier
