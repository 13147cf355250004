// The header of a safetensors file as its writer wrote it, kept beside the file's state.
//
// The state and the metadata of a file do not say in which order its writer put the tensors and the
// members of the JSON, how it spelled and spaced them, or how it padded the header. A conversion to
// Espalier keeps the header's text in the metadata, if it is not the one that plan_safetensors()
// writes. Then the way back gives the same bytes. The tree digest does not cover the metadata, so
// it stays that of the state.
#ifndef ESPALIER_FOREIGN_SAFETENSORS_KEPT_HEADER_H_
#define ESPALIER_FOREIGN_SAFETENSORS_KEPT_HEADER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/dtype.h"
#include "espalier/limits.h"
#include "espalier/value.h"

namespace espalier {

/// The metadata key of a kept header, and the label of its string. No text of a safetensors file
/// has a label, so metadata of a file cannot be taken for a kept header.
inline constexpr char kKeptHeaderKey[] = "safetensors.header";

/// Adds a header, without the length before it, to `metadata`, a dict. Does nothing if the key is
/// there.
void keep_header(Value& metadata, std::string header);
/// The kept header; null if there is none.
const std::string* find_kept_header(const Value& metadata);
/// Removes a kept header. Call it when the state changes: the header would be of no use.
void forget_header(Value& metadata);

/// A tensor to be stored under this name.
struct NamedTensor {
  std::string_view name;
  DType dtype = DType::kF32;
  std::span<const std::uint64_t> shape;
  std::uint64_t bytes = 0;
};

/// Where a header puts tensors.
struct KeptLayout {
  /// For each tensor, where its bytes begin after the header.
  std::vector<std::uint64_t> begins;
  /// The carried tree, if the header has one and the metadata that was asked for has none.
  std::optional<std::string> carried_tree;
};

/// Reads where `header` puts these tensors. nullopt if it does not describe exactly these tensors
/// and these pairs of `__metadata__`, in this order, with or without a carried tree: then the state
/// has changed since the header was kept, or the header is damaged or hostile.
std::optional<KeptLayout> fit_kept_header(
    std::string header, std::span<const NamedTensor> tensors,
    std::span<const std::pair<std::string_view, std::string_view>> metadata, bool has_metadata,
    const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SAFETENSORS_KEPT_HEADER_H_
