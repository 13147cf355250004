#include "espalier/format/validate.h"

#include <algorithm>

#include "espalier/base/utf8.h"
#include "espalier/format/access.h"
#include "espalier/format/validator.h"

namespace espalier {

Result<PoolFacts> Validator::run() {
  // The tree comes before the nodes' values, so that later errors can name key paths.
  for (const auto step :
       {&Validator::check_counts, &Validator::check_texts, &Validator::check_shapes,
        &Validator::check_blocks, &Validator::check_files, &Validator::check_keys,
        &Validator::check_tree, &Validator::check_values, &Validator::check_labels,
        &Validator::check_axes, &Validator::check_text_bytes, &Validator::check_uses,
        &Validator::check_end}) {
    if (!(this->*step)()) return tl::unexpected<Error>(std::move(*error_));
  }
  return std::move(pool_facts_);
}

bool Validator::check_counts() {
  if (t_.nodes.size() > limits_.nodes) {
    return bad_table(ErrorCode::kLimitExceeded, "the tree has " + counted(t_.nodes.size(), "node") +
                                                    " and Limits::nodes allows " +
                                                    std::to_string(limits_.nodes));
  }
  if (t_.nodes.size() < 2) {
    return bad_table(ErrorCode::kTreeInvalid,
                     "the roots of the state and the metadata are missing");
  }
  return true;
}

bool Validator::check_texts() {
  if (!check_ends(t_.text_ends, t_.text, ErrorCode::kTextInvalid, "texts")) return false;
  const std::string_view pool(t_.text.data(), t_.text.size());
  if (const auto invalid = find_invalid_utf8(pool)) {
    return bad(ErrorCode::kTextInvalid, "a string is not UTF-8", pool[*invalid]);
  }
  pool_facts_.plain_texts.reserve(t_.text_ends.size());
  for (std::uint32_t i = 0; i < t_.text_ends.size(); ++i) {
    if (!check_text(i)) return false;
  }
  return true;
}

ESPALIER_LOOP_BODY bool Validator::check_text(std::uint32_t i) {
  const std::string_view text = table_text(t_, i);
  longest_text_ = std::max<std::uint64_t>(longest_text_, text.size());
  pool_facts_.plain_texts.push_back(is_plain_key(text));
  // The pool as a whole is UTF-8, so each text is too unless it starts inside a character.
  if (!text.empty() && (static_cast<unsigned char>(text.front()) & 0xC0) == 0x80) {
    return bad(ErrorCode::kTextInvalid, "a string starts inside a UTF-8 character", text.front());
  }
  if (i > 0 && table_text(t_, i - 1) >= text) {
    return bad(ErrorCode::kTextInvalid, "the string pool is not sorted, or repeats a string",
               t_.text_ends[i]);
  }
  return true;
}

// A Value has a copy of every text for each use. This computes the size of all copies.
bool Validator::check_text_bytes() {
  const std::uint64_t uses = 2 * std::uint64_t{t_.nodes.size()} + t_.labels.size() +
                             t_.axis_names.size() + t_.tensors.size();
  if (longest_text_ <= limits_.text_bytes / std::max<std::uint64_t>(uses, 1)) return true;
  std::uint64_t bytes = 0;  // at most 2^31 in each of fewer than 2^32 uses
  const auto count = [&](std::uint32_t text) { bytes += table_text(t_, text).size(); };
  for (const NodeRecord& node : t_.nodes) {
    if (node.key_kind == static_cast<std::uint8_t>(KeyKind::kText)) count(node.key);
    if (node_kind(node) == Kind::kString) count(node.value);
  }
  for (const LabelRecord& label : t_.labels) count(label.text);
  for (const std::uint32_t name : t_.axis_names) count(name);
  for (const TensorRecord& tensor : t_.tensors) {
    if (tensor.block != 0) count(t_.blocks[tensor.block - 1u].name);
  }
  if (bytes <= limits_.text_bytes) return true;
  return bad_table(ErrorCode::kLimitExceeded,
                   "the texts of the tree take " + counted(bytes, "byte") +
                       ", counted once for each use, and Limits::text_bytes allows " +
                       std::to_string(limits_.text_bytes));
}

bool Validator::check_uses() {
  if (next_chunk_ != t_.chunks.size()) {
    return bad(ErrorCode::kChunkInvalid, "a chunk belongs to no tensor",
               t_.chunks[static_cast<std::size_t>(next_chunk_)]);
  }
  if (next_storage_ != t_.storages.size() || next_stride_ != t_.strides.size()) {
    return bad_table(ErrorCode::kTensorInvalid, "some storages or strides belong to no tensor");
  }
  if (const auto file = files_.first_unused(); file && facts_.placement == Placement::kCanonical) {
    return bad(ErrorCode::kIndexInvalid, "a further file has no chunk", t_.files[*file - 1]);
  }
  if (next_base_ != t_.bases.size()) {
    return bad(ErrorCode::kChunkInvalid, "a base belongs to no patch", t_.bases[next_base_]);
  }
  if (const auto text = texts_.first_unused()) {
    return bad(ErrorCode::kTextInvalid, "a string is unused", t_.text_ends[*text]);
  }
  if (const auto shape = shapes_.first_unused()) {
    return bad(ErrorCode::kTensorInvalid, "a shape is unused", t_.shape_ends[*shape]);
  }
  if (const auto block = blocks_.first_unused()) {
    return bad(ErrorCode::kTensorInvalid, "a block type is unused", t_.blocks[*block]);
  }
  return true;
}

bool Validator::check_end() {
  if (facts_.placement == Placement::kForeign) return true;
  if (used_features_ != facts_.features) {
    return bad_table(ErrorCode::kHeaderInvalid,
                     "the header's feature bits do not match the chunks' codecs");
  }
  if (next_byte_ != facts_.files.front().length) {
    return reject(ErrorCode::kChunkInvalid, next_byte_, {},
                  "the last chunk does not end where the file does");
  }
  return true;
}

Result<PoolFacts> validate(const Tables& tables, const FileFacts& facts, const Limits& limits) {
  return Validator(tables, facts, limits).run();
}

}  // namespace espalier
