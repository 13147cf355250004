#include "espalier/foreign/onnx/opener.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/base/release.h"
#include "espalier/base/utf8.h"
#include "espalier/detail/catalog.h"
#include "espalier/dtype.h"
#include "espalier/foreign/common/protobuf.h"
#include "espalier/foreign/onnx/fields.h"
#include "espalier/foreign/onnx/format.h"
#include "espalier/foreign/onnx/placement.h"
#include "espalier/foreign/onnx/tables.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

// Shorter files are read as a whole: each jump over a tensor is a request, and the next one waits
// for it.
constexpr std::uint64_t kReadWhole = std::uint64_t{16} << 20;
// Of numbers in other forms that are read with the names: of one tensor, and of all together.
constexpr std::uint64_t kShort = std::uint64_t{64} << 10;
constexpr std::uint64_t kMostShort = std::uint64_t{16} << 20;
constexpr std::uint64_t kMostWindow = std::uint64_t{4} << 20;
// The version of the format: 14 in 2026.
constexpr std::uint64_t kVersionsEnd = 100;

bool is_plain_text(ByteSpan bytes) {
  const std::string_view text = as_text(bytes);
  return !find_invalid_utf8(text) && std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20;
  });
}

}  // namespace

bool looks_like_onnx(ByteSpan front, std::uint64_t file_size) {
  constexpr std::uint32_t kVersion = 1, kDescription = 6, kGraph = 7;
  WireField field;
  std::size_t at = 0;
  if (read_wire_field(front, at, field) != WireResult::kField || field.number != kVersion ||
      field.type != WireType::kVarint || field.value >= kVersionsEnd) {
    return false;
  }
  while (at < front.size()) {
    const WireResult result = read_wire_field(front, at, field);
    if (result == WireResult::kBad) return false;
    if (result == WireResult::kCut) return front.size() < file_size;
    const OnnxField& known = onnx_field(OnnxMessage::kModel, field.number);
    if (known.what == OnnxField::What::kUnknown || !known.takes(field.type)) return false;
    if (field.number == kGraph) return true;
    if (field.type != WireType::kBytes) continue;
    // Other messages begin with a version, too, and then have a message where a model has the name
    // of its producer.
    const bool is_in_front = field.length <= front.size() - at;
    if (known.what == OnnxField::What::kText && field.number != kDescription &&
        (!is_in_front ||
         !is_plain_text(front.subspan(at, static_cast<std::size_t>(field.length))))) {
      return false;
    }
    if (!is_in_front) return true;
    at += static_cast<std::size_t>(field.length);
  }
  return false;
}

OnnxOpener::OnnxOpener(const OpenOptions& options)
    : StepOpener(options), parser_(options.file_size, options.limits) {}

Result<void> OnnxOpener::step() {
  switch (stage_) {
    case Stage::kFront:
    case Stage::kWindow:
      return parse();
    case Stage::kShortTensors:
      stage_ = Stage::kDone;
      fetch_short_tensors();
      return {};
    case Stage::kDone:
      break;
  }
  return {};
}

Result<void> OnnxOpener::parse() {
  const ByteSpan window = stage_ == Stage::kFront ? front() : ByteSpan(window_);
  stage_ = Stage::kWindow;
  const std::uint64_t begin = parser_.position();
  const auto is_done = parser_.parse(window);
  if (!is_done) return propagate(is_done);
  if (*is_done) {
    release_memory(window_);
    stage_ = Stage::kShortTensors;
    if (!parser_.model().files.empty()) return want_files(parser_.model().files);
    return step();
  }
  // A jump that a larger window would have in it makes the next one larger.
  const std::uint64_t at = parser_.position();
  const std::uint64_t left = options().file_size - at;
  const std::uint64_t larger = 4 * std::uint64_t{window.size()};
  std::uint64_t length = at - begin < larger ? std::min(larger, kMostWindow) : kFirstReadBytes;
  if (options().is_remote && options().file_size <= kReadWhole) length = left;
  length = std::min(std::max(length, parser_.needed()), left);
  window_.resize(static_cast<std::size_t>(length));
  want({0, at, length}, window_);
  return {};
}

void OnnxOpener::fetch_short_tensors() {
  const OnnxModel& model = parser_.model();
  fetched_.resize(model.tensors.size());
  struct Short {
    std::size_t tensor;
    Extent from;
  };
  std::vector<Short> shorts;
  std::size_t all = 0;
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    const OnnxTensor& tensor = model.tensors[i];
    const bool is_usual = tensor.place != OnnxTensor::Place::kFields &&
                          dtype_bits(onnx_type(tensor.type).dtype) % 8 == 0;
    if (is_usual) continue;
    const auto placement = place_onnx_tensor(tensor, model.shape(tensor));
    if (!placement || placement->how != OnnxPlacement::How::kMade) continue;
    const Extent& from = placement->made.from;
    if (from.file != 0 || from.length > kShort || all + from.length > kMostShort) continue;
    shorts.push_back({i, from});
    all += static_cast<std::size_t>(from.length);
  }
  short_bytes_.resize(all);
  MutableByteSpan rest = short_bytes_;
  for (const Short& one : shorts) {
    const auto length = static_cast<std::size_t>(one.from.length);
    want(one.from, rest.first(length));
    fetched_[one.tensor] = rest.first(length);
    rest = rest.subspan(length);
  }
}

void OnnxOpener::add_notes(OnnxModel& model) const {
  const auto add = [&](std::uint64_t count, const std::string& message, Note::Kind kind) {
    if (count > 0) model.notes.add({kind, {}, message});
  };
  add(model.unknown_fields,
      counted(model.unknown_fields, "field") +
          " of the model are not of ONNX 1.23 and were not read; use a newer Espalier",
      Note::Kind::kLoss);
  // What the copy has is not lost.
  if (!model.copy.empty()) return;
  add(model.nodes,
      "the graph of " + counted(model.nodes, "node") +
          ", with all else beside the tensors, takes " + "more than " +
          std::to_string(OnnxModelCopy::kMostBytes >> 20) + " MiB" +
          " and is not kept: keep the model to run it",
      Note::Kind::kLoss);
  add(model.tensor_texts,
      counted(model.tensor_texts, "text") + " about tensors (doc_string, metadata_props)" +
          " are not kept",
      Note::Kind::kLoss);
}

Result<Checkpoint> OnnxOpener::build() {
  OnnxModel& model = parser_.model();
  add_notes(model);
  auto tables = onnx_tables(model, fetched_, files(), options().limits);
  if (!tables) return propagate(tables);
  auto catalog = Catalog::from_foreign({.format = &kOnnxFormat,
                                        .tables = std::move(*tables),
                                        .files = std::move(files()),
                                        .notes = std::move(model.notes),
                                        .nest = options().nest},
                                       options().limits);
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace espalier
