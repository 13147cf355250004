// The machine inside validate(): what its parts, one for each subject, share. Internal.
#ifndef ESPALIER_FORMAT_VALIDATOR_H_
#define ESPALIER_FORMAT_VALIDATOR_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/loop_body.h"
#include "espalier/detail/catalog.h"
#include "espalier/error.h"
#include "espalier/format/access.h"
#include "espalier/format/file_set.h"
#include "espalier/format/find_path.h"
#include "espalier/format/validate.h"
#include "espalier/kind.h"
#include "espalier/limits.h"

namespace espalier {

// Marks the entries of a pool that something refers to: an entry that nothing uses could hide
// bytes, and our writer makes none.
class Uses {
 public:
  explicit Uses(std::size_t count) : count_(count), bits_((count + 63) / 64) {}

  void mark(std::uint32_t entry) { bits_[entry / 64] |= std::uint64_t{1} << (entry % 64); }

  std::optional<std::size_t> first_unused() const {
    for (std::size_t word = 0; word < bits_.size(); ++word) {
      if (bits_[word] == ~std::uint64_t{0}) continue;
      const auto entry = word * 64 + static_cast<std::size_t>(std::countr_one(bits_[word]));
      if (entry < count_) return entry;
    }
    return std::nullopt;
  }

 private:
  std::size_t count_;
  std::vector<std::uint64_t> bits_;
};

class Validator {
 public:
  Validator(const Tables& tables, const FileFacts& facts, const Limits& limits)
      : t_(tables),
        facts_(facts),
        limits_(limits),
        texts_(tables.text_ends.size()),
        shapes_(tables.shape_ends.size()),
        blocks_(tables.blocks.size()),
        files_(facts.files.size()),
        next_byte_(facts.files.front().data_begin) {
    for (const FileEntry& file : facts.files) {
      if (!file.maker) stored_bytes_ += std::min(file.length, kMaxTensorBytes - stored_bytes_);
    }
    room_at_first_ = room_ = room_of(stored_bytes_, limits);
  }

  [[nodiscard]] Result<PoolFacts> run();

 private:
  template <class Record>
  std::uint64_t offset_of(const Record& record) const {
    if (facts_.index == nullptr) return Error::kNoOffset;
    const auto* at = reinterpret_cast<const std::byte*>(&record);
    return facts_.index_offset + static_cast<std::uint64_t>(at - facts_.index);
  }

  // The checks run for every node of a file, so they pass a bool up, and leave the error here;
  // "cold" keeps what only bad files need out of the way of the others.
  [[gnu::cold]] bool reject(ErrorCode code, std::uint64_t offset, std::string path,
                            std::string_view message) {
    error_ = Error{code, offset, std::move(path), std::string(message)};
    return false;
  }

  template <class Record>
  [[gnu::cold]] bool bad(ErrorCode code, std::string_view message, const Record& record) {
    return reject(code, offset_of(record), {}, message);
  }

  [[gnu::cold]] bool bad_node(ErrorCode code, std::string_view message, std::uint32_t node) {
    return reject(code, offset_of(t_.nodes[node]), find_path(t_, node), message);
  }

  [[gnu::cold]] bool bad_chunk(ErrorCode code, std::string_view message, const ChunkRecord& chunk,
                               std::uint32_t node) {
    return reject(code, offset_of(chunk), find_path(t_, node), message);
  }

  [[gnu::cold]] bool bad_table(ErrorCode code, std::string_view message) {
    return reject(code, facts_.index == nullptr ? Error::kNoOffset : facts_.index_offset, {},
                  message);
  }

  // A pool's ends must not decrease and must use up the pool; only then may its entries be looked
  // at.
  template <class Pool>
  bool check_ends(std::span<const std::uint32_t> ends, const Pool& pool, ErrorCode code,
                  const char* what) {
    std::uint32_t previous = 0;
    for (const std::uint32_t& end : ends) {
      if (end < previous || end > pool.size()) {
        return bad(code, std::string("the ends of the ") + what + " are out of order", end);
      }
      previous = end;
    }
    if (previous != pool.size()) {
      return bad_table(code, std::string("the ") + what + " do not use up their pool");
    }
    return true;
  }

  // validate.cpp: how much there is, texts, and what nothing refers to.
  bool check_counts();
  bool check_texts();
  bool check_text(std::uint32_t i);
  bool check_text_bytes();
  bool check_uses();
  bool check_end();

  // validate_tree.cpp: keys, containers and scalars.
  bool check_keys();
  bool check_key(const NodeRecord& node, std::uint64_t& words);
  struct Frame {
    std::uint32_t next;
    std::uint32_t end;
    std::uint64_t path_bytes;
  };
  std::string walked_path(const std::vector<Frame>& stack) const;
  bool check_tree();
  std::uint64_t key_bytes(const NodeRecord& node) const;
  bool check_children(const NodeRecord& node);
  bool check_values();
  bool check_scalar(std::uint32_t index);
  bool check_bigint(std::uint32_t index);
  bool check_dict_order(std::uint32_t index);
  bool check_labels();

  // validate_tensors.cpp: shapes, block types, tensors and their chunks.
  bool check_shapes();
  bool check_blocks();
  bool check_files();
  bool check_tensor(std::uint32_t index);
  bool is_placed(const ChunkRecord& chunk, bool is_first) const;
  bool check_referred(std::uint32_t index, std::span<const ChunkRecord> chunks);
  bool check_chunks(std::uint32_t index, const TensorRecord& tensor, std::uint64_t bytes);
  bool check_compressed(std::uint32_t index, const TensorRecord& tensor, std::uint64_t length,
                        const ChunkRecord& chunk);
  bool check_patch(std::uint32_t index, const TensorRecord& tensor, std::uint64_t length,
                   std::uint32_t number);
  bool is_own_chunk(const ChunkRecord& base) const;
  static std::uint64_t room_of(std::uint64_t stored, const Limits& limits);
  bool check_repeats(std::uint32_t index, std::uint64_t logical, std::uint64_t stored);
  std::optional<std::uint64_t> check_storage(std::uint32_t index, const TensorRecord& tensor,
                                             std::uint64_t bytes);
  bool check_axes();

  const Tables& t_;
  const FileFacts& facts_;
  const Limits& limits_;
  Uses texts_;
  Uses shapes_;
  Uses blocks_;
  Uses files_;
  static constexpr std::uint64_t kTooManyElements = ~std::uint64_t{0};  // for any dtype
  PoolFacts pool_facts_;
  std::uint64_t longest_text_ = 0;
  std::uint32_t next_tensor_ = 0;
  std::uint64_t next_chunk_ = 0;
  std::size_t next_storage_ = 0;
  std::uint64_t next_stride_ = 0;
  std::uint64_t stored_bytes_ = 0;  // of all files that are not made
  std::uint64_t room_at_first_ = 0;
  std::uint64_t room_ = 0;  // for the bytes of further tensors
  std::uint64_t next_value_byte_ = 0;
  std::size_t next_dict_ = 0;
  std::uint64_t next_order_ = 0;
  std::uint64_t next_byte_;
  std::uint32_t last_file_ = 0;
  std::uint64_t used_features_ = 0;
  std::vector<std::uint32_t> referred_;  // chunks of one tensor
  std::uint32_t next_base_ = 0;
  std::vector<std::uint32_t> own_;  // the chunks in file 0 so far, if there are bases
  std::optional<Error> error_;
};

}  // namespace espalier

#endif  // ESPALIER_FORMAT_VALIDATOR_H_
