// What is read of an ONNX model: the tensors, where their bytes lie, and the tree of their names.
#ifndef ESPALIER_FOREIGN_ONNX_MODEL_H_
#define ESPALIER_FOREIGN_ONNX_MODEL_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/foreign/onnx/types.h"
#include "espalier/kind.h"
#include "espalier/notes.h"

namespace espalier {

/// A piece of OnnxModel::texts.
struct OnnxText {
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
};

/// A tensor. Its numbers stand in one of several places, or nowhere.
struct OnnxTensor {
  enum class Place : std::uint8_t {
    kNowhere,
    /// `data` are the bytes of its elements.
    kRaw,
    /// The same in another file.
    kExternal,
    /// `data` are fields of a message, of which those with the number `field` are the numbers.
    kFields,
  };

  OnnxText name = {};
  std::uint64_t type = 0;
  std::uint32_t first_dim = 0;
  std::uint32_t rank = 0;
  /// Where its message begins, for errors.
  std::uint64_t begin = 0;
  Place place = Place::kNowhere;
  /// Of kExternal, the length that the model says; none if has_length is false.
  Extent data = {};
  bool has_length = true;
  std::uint32_t field = 0;
  OnnxNumbers numbers = OnnxNumbers::kNone;
  /// The bytes of the numbers, if one field has all of them.
  Extent packed = {};
  bool is_packed = false;
};

/// A value and its key. kCopy is OnnxModel::copy.
struct OnnxEntry {
  enum class Type : std::uint8_t { kTensor, kContainer, kInteger, kText, kCopy };

  OnnxText key = {};
  Type type = Type::kInteger;
  /// The number of the tensor or container, or the integer.
  std::uint64_t value = 0;
  OnnxText text = {};
};

struct OnnxContainer {
  Kind kind = Kind::kDict;
  std::string_view label = {};
  std::vector<OnnxEntry> entries = {};
};

/// All of it. The first container is the state, the second the metadata.
struct OnnxModel {
  std::string texts;
  std::vector<std::uint64_t> dims;
  std::vector<OnnxTensor> tensors;
  std::vector<OnnxContainer> containers;
  /// Those that external data lie in; Extent::file counts them from 1 on.
  std::vector<std::string> files;
  /// Nodes of all graphs and functions.
  std::uint64_t nodes = 0;
  /// Fields that are not of ONNX 1.23.
  std::uint64_t unknown_fields = 0;
  /// Texts of tensors (doc_string, metadata_props).
  std::uint64_t tensor_texts = 0;
  Notes notes;
  /// The ModelProto without the numbers of its tensors; empty if it is too long.
  std::string copy;

  std::string_view text(OnnxText piece) const {
    return std::string_view(texts).substr(piece.offset, piece.length);
  }
  std::span<const std::uint64_t> shape(const OnnxTensor& tensor) const {
    return std::span(dims).subspan(tensor.first_dim, tensor.rank);
  }
};

inline constexpr std::uint32_t kOnnxState = 0;
inline constexpr std::uint32_t kOnnxMetadata = 1;

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ONNX_MODEL_H_
