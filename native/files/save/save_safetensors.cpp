#include <new>
#include <utility>
#include <vector>

#include "espalier/checkpoint_file.h"
#include "espalier/codec/compression_level.h"
#include "espalier/foreign/safetensors/writer.h"
#include "espalier/save_foreign.h"
#include "files/os/about_file.h"
#include "files/os/out_of_memory.h"
#include "files/save/save_format.h"
#include "files/save/write_tensors.h"

namespace espalier {
namespace {

// `target` is a path or a sink.
template <class Target>
Result<Losses> save_to(Target& target, const Value& state, const SaveOptions& options) try {
  if (options.compression_level != kNoCompression) {
    return fail(
        ErrorCode::kInvalidArgument,
        "safetensors files are never compressed; leave the level at 0, or save as Espalier");
  }
  auto plan = plan_safetensors(state, options.metadata, {options.unrepresentable, options.limits});
  if (!plan) return propagate(plan);
  std::vector<TensorPlace> places;
  places.reserve(plan->tensors.size());
  for (const SafetensorsTensor& tensor : plan->tensors) {
    places.push_back({tensor.name, &tensor.data, tensor.extent});
  }
  auto written = write_tensors(target, plan->header, places, plan->file_length, options);
  if (!written) return propagate(written);
  return std::move(plan->dropped);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace

Result<Losses> save_safetensors(const FilePath& path, const Value& state,
                                const SaveOptions& options) {
  return about_file(path.text(), [&]() -> Result<Losses> {
    const std::filesystem::path target = path;
    if (options.check_ending) {
      if (auto ok = check_format_ending(target, SaveFormat::kSafetensors); !ok) {
        return propagate(ok);
      }
    }
    return save_to(target, state, options);
  });
}

Result<Losses> save_safetensors(const FilePath& path, const Contents& contents,
                                const SaveOptions& options) try {
  SaveOptions as_there = options;
  as_there.metadata = contents.metadata;
  return save_safetensors(path, contents.state, as_there);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<Losses> save_safetensors(Sink& sink, const Value& state, const SaveOptions& options) {
  return save_to(sink, state, options);
}

}  // namespace espalier
