#include "espalier/foreign/tensorflow/opener.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/detail/catalog.h"
#include "espalier/foreign/tensorflow/object_graph.h"
#include "espalier/foreign/tensorflow/object_tree.h"
#include "espalier/foreign/tensorflow/texts.h"
#include "espalier/format/foreign_parts.h"

namespace espalier {
namespace {

constexpr std::string_view kIndexEnding = ".index";

// ".data-00001-of-00003": how the names of shards end. Five digits, or more.
std::string shard_ending(std::uint32_t number, std::uint32_t count) {
  const auto digits = [](std::uint32_t value) {
    const std::string text = std::to_string(value);
    return std::string(5 - std::min<std::size_t>(text.size(), 5), '0') + text;
  };
  return ".data-" + digits(number) + "-of-" + digits(count);
}

bool has_texts(const BundleEntry& entry) {
  return entry.type.storage == TensorFlowType::Storage::kText ||
         entry.type.storage == TensorFlowType::Storage::kVariant;
}

}  // namespace

Result<void> TensorFlowOpener::step() {
  switch (stage_) {
    case Stage::kFront: {
      const std::uint64_t limit = options().limits.foreign_header_bytes;
      if (options().file_size > limit) {
        return fail(ErrorCode::kLimitExceeded,
                    "the index has " + counted(options().file_size, "byte") +
                        " and Limits::foreign_header_bytes allows " + std::to_string(limit));
      }
      bytes_.resize(static_cast<std::size_t>(options().file_size));
      std::copy(front().begin(), front().end(), bytes_.begin());
      const auto rest = MutableByteSpan(bytes_).subspan(front().size());
      stage_ = Stage::kIndex;
      if (rest.empty()) return step();
      want({0, front().size(), rest.size()}, rest);
      return {};
    }
    case Stage::kIndex:
      stage_ = Stage::kShards;
      if (auto ok = read_index(); !ok) return ok;
      if (auto ok = want_shards(); !ok) return ok;
      return opened_.shards.empty() || files().size() == 1 ? step() : Result<void>{};
    case Stage::kShards:
      stage_ = Stage::kTexts;
      return want_texts();
    case Stage::kTexts:
      break;
  }
  return {};
}

Result<void> TensorFlowOpener::read_index() {
  auto table = SortedTable::read(bytes_, options().limits);
  if (!table) return propagate(table);
  table_ = std::move(*table);
  auto bundle = read_bundle(*table_);
  if (!bundle) return propagate(bundle);
  opened_.bundle = std::move(*bundle);
  return {};
}

// Those that have bytes of a tensor: their names follow from that of the index.
Result<void> TensorFlowOpener::want_shards() {
  std::set<std::uint32_t> shards;
  for (const BundleEntry& entry : opened_.bundle.entries) {
    if (entry.piece.size > 0) shards.insert(entry.piece.shard);
    for (const BundleSlice& slice : entry.slices) {
      if (slice.piece.size > 0) shards.insert(slice.piece.shard);
    }
  }
  std::string_view name = options().name;
  const bool is_named = name.ends_with(kIndexEnding);
  if (is_named) name.remove_suffix(kIndexEnding.size());
  std::vector<std::string> names;
  for (const std::uint32_t shard : shards) {
    names.push_back(std::string(name) + shard_ending(shard, opened_.bundle.shard_count));
    opened_.shards.emplace(shard, static_cast<std::uint16_t>(names.size()));
  }
  if (is_named || names.empty()) return want_files(std::move(names));
  opened_.notes.add({Note::Kind::kLoss,
                     {},
                     "this is the index of a TensorFlow checkpoint, and the files with its tensors "
                     "cannot be found: its name does not end with .index"});
  return {};
}

Result<void> TensorFlowOpener::want_texts() {
  const Bundle& bundle = opened_.bundle;
  std::uint64_t left = options().limits.foreign_header_bytes;
  for (std::uint32_t number = 0; number < bundle.entries.size(); ++number) {
    const BundleEntry& entry = bundle.entries[number];
    const BundlePiece& piece = entry.piece;
    const std::uint16_t file = piece.size == 0 ? 0 : opened_.shards.at(piece.shard);
    if (!has_texts(entry) || !entry.slices.empty() || file >= files().size() ||
        files()[file].problem || !range_fits(piece.offset, piece.size, files()[file].length)) {
      continue;
    }
    if (piece.size > left) {
      return fail(ErrorCode::kLimitExceeded,
                  "the object graph and the strings of the checkpoint take more than the " +
                      counted(options().limits.foreign_header_bytes, "byte") +
                      " that Limits::foreign_header_bytes allows");
    }
    left -= piece.size;
    auto& bytes = opened_.texts[number];
    bytes.resize(static_cast<std::size_t>(piece.size));
    if (!bytes.empty()) want({file, piece.offset, piece.size}, bytes);
  }
  return {};
}

Result<void> TensorFlowOpener::make_tree() {
  const Bundle& bundle = opened_.bundle;
  const Limits& limits = options().limits;
  const BundleEntry* const entry = bundle.find(kObjectGraphName);
  std::optional<Error> problem;
  if (entry != nullptr) {
    const auto number = static_cast<std::uint32_t>(entry - bundle.entries.data());
    const auto stored = opened_.texts.find(number);
    if (stored == opened_.texts.end() || entry->rank != 0 ||
        entry->type.storage != TensorFlowType::Storage::kText) {
      problem = Error{ErrorCode::kIncomplete, Error::kNoOffset, {}, "its bytes are not to be had"};
    } else if (const auto texts = read_texts(*entry, stored->second); !texts) {
      problem = texts.error();
    } else {
      auto graph = read_object_graph(texts->front(), limits);
      if (graph) {
        opened_.bundle.unknown_fields += graph->unknown_fields;
        auto tree = make_object_tree(bundle, *graph, limits, opened_.notes);
        if (!tree) return propagate(tree);
        opened_.tree = std::move(*tree);
        return {};
      }
      if (graph.error().code == ErrorCode::kLimitExceeded) return propagate(graph);
      problem = graph.error();
    }
  }
  opened_.tree = make_flat_tree(bundle);
  if (!problem) return {};
  const std::string message =
      "the object graph cannot be read, so the tensors stand under their whole names: " +
      problem->message;
  opened_.notes.add({Note::Kind::kLoss, {}, message});
  if (problem->code == ErrorCode::kForeignInvalid) {
    opened_.damage = Error{ErrorCode::kForeignInvalid, Error::kNoOffset, {}, message};
  }
  return {};
}

Result<Checkpoint> TensorFlowOpener::build() {
  if (auto ok = make_tree(); !ok) return propagate(ok);
  // Without its name, no shard was asked for: all are missing.
  if (files().size() == 1) {
    for (const auto& [shard, number] : opened_.shards) {
      FileEntry file{.name = "shard " + std::to_string(shard)};
      file.problem = Error{ErrorCode::kFileMissing,
                           Error::kNoOffset,
                           {},
                           "the checkpoint has bytes in this file; no source for it",
                           file.name};
      files().push_back(std::move(file));
    }
  }
  opened_.files = std::move(files());
  auto parts = make_tensorflow_parts(opened_, options().limits);
  if (!parts) return propagate(parts);
  parts->nest = options().nest;
  auto catalog = Catalog::from_foreign(std::move(*parts), options().limits);
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace espalier
