// Lays out a whole file from a state tree before any tensor byte is read.
#ifndef ESPALIER_WRITE_LAYOUT_H_
#define ESPALIER_WRITE_LAYOUT_H_

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "espalier/error.h"
#include "espalier/format/index.h"
#include "espalier/limits.h"
#include "espalier/value.h"
#include "espalier/write/references.h"

namespace espalier {

/// A file whose every byte has its place: an index in which only the chunks' hashes are missing,
/// and the tensors that fill the rest.
struct Layout {
  explicit Layout(EncodedIndex made) : index(std::move(made)) {}

  EncodedIndex index;
  /// By tensor number; each tied tensor once. Placeholders are among them.
  std::vector<std::shared_ptr<const Tensor>> tensors;
  /// The stored bytes of patches, by chunk number.
  std::unordered_map<std::uint32_t, std::shared_ptr<const std::vector<std::byte>>> patches;
  std::uint64_t file_length = 0;
};

/// Lays out `state` and `metadata` (a dict without tensors). kInvalidTree, with the key path, for
/// what the format cannot hold: equal keys in a container, text that is not UTF-8, a tensor whose
/// data do not fit its shape, and whatever a reader with `limits` would refuse. Linear but for
/// sorting texts and keys; the result shares the tensors with `state`.
/// Chunks of `references` get their records, which are complete, and no place in the file, unless
/// they are patches.
[[nodiscard]] Result<Layout> lay_out(const Value& state, const Value& metadata,
                                     const Limits& limits = {}, const References& references = {});

}  // namespace espalier

#endif  // ESPALIER_WRITE_LAYOUT_H_
