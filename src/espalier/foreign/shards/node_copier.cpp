#include "espalier/foreign/shards/node_copier.h"

#include <limits>
#include <span>
#include <string_view>

#include "espalier/bigint.h"
#include "espalier/foreign/shards/shard_maker.h"
#include "espalier/format/access.h"
#include "espalier/format/file_set.h"

namespace espalier {

Result<std::vector<std::uint16_t>> add_made_files(FileSet& files, const Catalog& catalog,
                                                  std::uint32_t number) {
  std::vector<std::uint16_t> numbers = {static_cast<std::uint16_t>(number)};
  for (FileEntry file : catalog.files().subspan(1)) {
    if (files.size() > std::numeric_limits<std::uint16_t>::max()) {
      return fail(ErrorCode::kLimitExceeded,
                  "the checkpoint has more than 65535 files, with those that are made when they "
                  "are read");
    }
    numbers.push_back(static_cast<std::uint16_t>(files.size()));
    file.maker = move_maker(std::move(file.maker), number);
    files.push_back(std::move(file));
  }
  return numbers;
}

void NodeCopier::add(const NodeRef& node) {
  if (const auto label = node.label()) builder_.label(*label);
  switch (node.kind()) {
    case Kind::kNull:
      return builder_.null();
    case Kind::kBool:
      return builder_.boolean(*node.as_bool());
    case Kind::kInt64:
      return builder_.integer(*node.as_int64());
    case Kind::kBigInt:
      return builder_.bigint(node.as_bigint()->bytes());
    case Kind::kFloat64:
      return builder_.real(*node.as_double());
    case Kind::kComplex128:
      return builder_.complex(*node.as_complex());
    case Kind::kString:
      return builder_.string(*node.as_string());
    case Kind::kBytes:
      return builder_.bytes(*node.as_bytes());
    case Kind::kDict:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kSet:
    case Kind::kRecord:
      return builder_.container(node.kind());
    case Kind::kTensor:
    case Kind::kPlaceholder:
      return add_tensor(*node.tensor());
  }
}

void NodeCopier::add_tensor(const TensorRef& tensor) {
  std::uint32_t& number = tensors_[tensor.number()];
  if (number != kNoNumber) {
    return builder_.known_tensor(number,
                                 tensor.is_placeholder() ? Kind::kPlaceholder : Kind::kTensor);
  }
  number = builder_.tensor_count();
  std::vector<std::string>& axis_names = axis_names_.emplace_back();
  for (const std::string_view name : tensor.axis_names()) axis_names.emplace_back(name);
  if (axis_names.empty()) axis_names_.pop_back();
  const TensorType type{tensor.dtype(), tensor.shape(), tensor.block(),
                        axis_names_.empty() || tensor.axis_names().empty()
                            ? std::span<const std::string>()
                            : std::span<const std::string>(axis_names_.back())};
  if (tensor.is_placeholder()) return builder_.placeholder(type);
  builder_.tensor(type);
  const Tables& t = tensor.catalog().tables();
  if (const StorageRecord* storage = tensor.storage()) {
    const bool is_strided = (storage->flags & kStorageStrided) != 0;
    builder_.storage(*storage, is_strided
                                   ? t.strides.subspan(storage->first_stride, tensor.shape().size())
                                   : std::span<const std::uint64_t>());
  }
  for (ChunkRecord chunk : table_chunks(t, tensor.number())) {
    chunk.file = file_numbers_[chunk.file];
    builder_.place_chunk(chunk);
  }
}

}  // namespace espalier
