// Saves a model in several safetensors files.
#include <algorithm>
#include <map>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "espalier/codec/compression_level.h"
#include "espalier/foreign/common/flatten.h"
#include "espalier/foreign/safetensors/header.h"
#include "espalier/foreign/safetensors/writer.h"
#include "espalier/save_foreign.h"
#include "espalier/source.h"
#include "files/os/about_file.h"
#include "files/save/model_folder.h"
#include "files/save/shard_split.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

// What is written: the tensors in tree order, as the one file of all of them would have them.
struct ModelTensors {
  std::vector<FlatTensor> tensors;
  std::vector<ShardTensor> sizes;
  Losses left_out;
};

Result<ModelTensors> tensors_of(const Value& state, const SaveOptions& options) {
  // The plan of one file checks all that the plans of several would, and says what is left out.
  auto plan = plan_safetensors(state, options.metadata, {options.unrepresentable, options.limits});
  if (!plan) return propagate(plan);
  auto flat = flatten(state, kMaxSafetensorsHeaderBytes, options.limits);
  if (!flat) return propagate(flat);
  std::map<std::string_view, std::uint64_t> bytes;
  for (const SafetensorsTensor& tensor : plan->tensors) {
    bytes.emplace(tensor.name, tensor.extent.length);
  }
  ModelTensors model{{}, {}, std::move(plan->dropped)};
  std::erase_if(flat->tensors, [&](const FlatTensor& each) { return !bytes.contains(each.name); });
  model.tensors = std::move(flat->tensors);
  for (const FlatTensor& each : model.tensors) {
    std::uint64_t elements = 1;
    for (const std::uint64_t axis : each.tensor->shape) elements *= axis;
    model.sizes.push_back({each.name, bytes.at(each.name), elements, each.tensor.get()});
  }
  return model;
}

Result<std::string> read_text(const FilePath& path, const Limits& limits) {
  const auto source = open_source(path, Access::kRead);
  if (!source) return propagate(source);
  if ((*source)->size() > limits.foreign_header_bytes) {
    return fail(ErrorCode::kLimitExceeded,
                "the index has more bytes than Limits::foreign_header_bytes");
  }
  std::string text(static_cast<std::size_t>((*source)->size()), '\0');
  auto ok = (*source)->copy({0, 0, text.size()}, std::as_writable_bytes(std::span(text)));
  if (!ok) return propagate(ok);
  return text;
}

Result<ShardSplit> split(const ModelTensors& model, const ModelNames& names,
                         const ShardOptions& shards, const Limits& limits) {
  if (!shards.like)
    return split_by_size(model.sizes, shards.max_bytes, names, shards.index_metadata);
  return about_file(shards.like->text(), [&]() -> Result<ShardSplit> {
    const auto text = read_text(*shards.like, limits);
    if (!text) return propagate(text);
    return split_like(model.sizes, *text, limits, shards.index_metadata);
  });
}

Result<SavedModel> save_model(const fs::path& path, const Value& state, const ShardOptions& shards,
                              const SaveOptions& options) {
  if (options.unrepresentable == Unrepresentable::kMetadata) {
    return fail(ErrorCode::kInvalidArgument,
                "the metadata of one file would carry the tree; leave out what does not fit "
                "(Unrepresentable::kDrop), or save one file");
  }
  if (options.compression_level != kNoCompression) {
    return fail(ErrorCode::kInvalidArgument, "safetensors files are never compressed");
  }
  auto names = model_names(path.filename().string());
  if (!names) return propagate(names);
  auto model = tensors_of(state, options);
  if (!model) return propagate(model);
  auto parts = split(*model, *names, shards, options.limits);
  if (!parts) return propagate(parts);
  auto folder = ModelFolder::open(path.parent_path(), std::move(*names), options);
  if (!folder) return propagate(folder);

  SavedModel saved;
  saved.left_out = std::move(model->left_out);
  if (parts->index.empty()) {
    for (const Key& key : shards.index_metadata.keys()) {
      saved.left_out.add("(metadata)/index/metadata/" + std::string(key.view().text),
                         "a member of an index");
    }
  }
  std::uint64_t total = 0;
  for (const ShardTensor& tensor : model->sizes) total += tensor.bytes;
  std::uint64_t done = 0;
  std::vector<ModelFolder::NewFile> files;
  for (const ShardSplit::File& part : parts->files) {
    std::vector<Value::Item> items;
    std::uint64_t bytes = 0;
    for (const std::size_t number : part.tensors) {
      // Of its own, as the two names of a tie are two tensors in such a file.
      items.emplace_back(Key(model->tensors[number].name),
                         Value::tensor(*model->tensors[number].tensor));
      bytes += model->sizes[number].bytes;
    }
    auto sink = folder->create(part.name);
    if (!sink) return propagate(sink);
    SaveOptions own = options;
    own.unrepresentable = Unrepresentable::kDrop;  // tensors_of() has told what
    if (options.progress) {
      own.progress = [&](std::uint64_t now, std::uint64_t) {
        options.progress(std::min(done + now, total), total);
      };
    }
    HeldSink held(*sink);
    if (auto ok = save_safetensors(held, Value::dict(std::move(items)), own); !ok)
      return propagate(ok);
    done += bytes;
    saved.bytes += held.length();
    saved.files.push_back(part.name);
    files.push_back({part.name, std::move(*sink)});
  }
  if (!parts->index.empty()) saved.index = folder->names().index;
  saved.bytes += parts->index.size();
  if (auto ok = folder->replace(std::move(files), parts->index); !ok) return propagate(ok);
  return saved;
}

}  // namespace

Result<SavedModel> save_safetensors_model(const FilePath& path, const Value& state,
                                          const ShardOptions& shards, const SaveOptions& options) {
  return about_file(path.text(), [&] { return save_model(path, state, shards, options); });
}

}  // namespace espalier
