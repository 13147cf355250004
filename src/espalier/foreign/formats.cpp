#include "espalier/foreign/formats.h"

#include <array>
#include <cstddef>
#include <iterator>
#include <span>
#include <string_view>

#include "espalier/foreign/any_archive.h"
#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/dcp/format.h"
#include "espalier/foreign/dcp/metadata.h"
#include "espalier/foreign/dcp/opener.h"
#include "espalier/foreign/gguf/format.h"
#include "espalier/foreign/gguf/opener.h"
#include "espalier/foreign/hdf5/format.h"
#include "espalier/foreign/hdf5/keras_reader.h"
#include "espalier/foreign/hdf5/opener.h"
#include "espalier/foreign/msgpack/format.h"
#include "espalier/foreign/msgpack/opener.h"
#include "espalier/foreign/numpy/format.h"
#include "espalier/foreign/numpy/npy_opener.h"
#include "espalier/foreign/numpy/npz_reader.h"
#include "espalier/foreign/onnx/format.h"
#include "espalier/foreign/onnx/opener.h"
#include "espalier/foreign/orbax/format.h"
#include "espalier/foreign/orbax/opener.h"
#include "espalier/foreign/safetensors/format.h"
#include "espalier/foreign/safetensors/opener.h"
#include "espalier/foreign/shards/format.h"
#include "espalier/foreign/shards/opener.h"
#include "espalier/foreign/tensorflow/bundle.h"
#include "espalier/foreign/tensorflow/format.h"
#include "espalier/foreign/tensorflow/opener.h"
#include "espalier/foreign/torch/archive_reader.h"
#include "espalier/foreign/torch/format.h"
#include "espalier/foreign/torch/pickle_opener.h"
#include "espalier/foreign/zip/opener.h"
#include "espalier/read/opener.h"

namespace espalier {
namespace {

std::unique_ptr<OpeningMachine> make_zip(const OpenOptions& options) {
  return std::make_unique<ZipOpener>(options, choose_content_reader);
}

// Opens each file of a sharded model by this same table.
std::unique_ptr<OpeningMachine> make_sharded(const OpenOptions& options) {
  return std::make_unique<ShardsOpener>(options, make_machine<AnyOpener>);
}

// A span of one, because a sanitizer's build cannot compare a pointer with null in a constant.
constexpr std::span<const FormatInfo> one(const FormatInfo& format) { return {&format, 1}; }

// The first one that fits counts. What has no magic comes last, but for what no other format begins
// like.
constexpr FileKind kFiles[] = {
    {one(kSafetensorsFormat), is_safetensors, make_machine<SafetensorsOpener>},
    {one(kNpyFormat), looks_like_npy, make_machine<NpyOpener>},
    {{}, looks_like_zip, make_zip},
    {one(kGgufFormat), looks_like_gguf, make_machine<GgufOpener>},
    {one(kTensorFlowFormat), looks_like_tensorflow, make_machine<TensorFlowOpener>},
    {one(kHdf5Format), looks_like_hdf5, make_machine<Hdf5Opener>},
    {one(kOrbaxFormat), looks_like_orbax, make_machine<OrbaxOpener>},
    {one(kShardedFormat), looks_like_shard_index, make_sharded},
    {one(kMsgpackFormat), looks_like_msgpack, make_machine<MsgpackOpener>},
    {one(kOnnxFormat), looks_like_onnx, make_machine<OnnxOpener>},
    {one(kDcpFormat), looks_like_dcp, make_machine<DcpOpener>},
    {one(kTorchFormat), looks_like_pickle, make_machine<PickleOpener>},
    // Damaged ones. The first bytes of others are a number, too, which may fit a large file.
    {one(kSafetensorsFormat), looks_like_safetensors, make_machine<SafetensorsOpener>, true},
};

constexpr ArchiveKind kArchives[] = {
    {one(kTorchFormat), is_torch_archive, make_torch_reader},
    {one(kNpzFormat), is_npz, make_reader<NpzReader>},
    {one(kKerasFormat), is_keras, make_reader<KerasReader>},
};

struct Formats {
  std::array<const FormatInfo*, 1 + std::size(kFiles) + std::size(kArchives)> rows = {};
  std::size_t count = 0;

  constexpr void add(std::span<const FormatInfo> formats) {
    for (const FormatInfo& format : formats) {
      for (std::size_t i = 0; i < count; ++i) {
        if (*rows[i] == format) return;
      }
      rows[count++] = &format;
    }
  }
};

constexpr Formats kFormats = [] {
  Formats formats;
  formats.add(one(kEspalierFormat));
  for (const FileKind& kind : kFiles) formats.add(kind.format);
  for (const ArchiveKind& kind : kArchives) formats.add(kind.format);
  return formats;
}();

// Made when it is compiled: each title once, as NumPy's two formats have one.
struct Sentence {
  char text[300] = {};
  std::size_t size = 0;

  constexpr void add(std::string_view part) {
    for (const char each : part) text[size++] = each;
  }
};

[[maybe_unused]] constexpr Sentence kNoKnownFormat = [] {
  Sentence sentence;
  sentence.add("no format that the library reads (");
  for (std::size_t i = 0; i < kFormats.count; ++i) {
    bool is_new = true;
    for (std::size_t k = 0; k < i; ++k) {
      is_new = is_new && kFormats.rows[k]->title != kFormats.rows[i]->title;
    }
    if (!is_new) continue;
    if (i > 0) sentence.add(", ");
    sentence.add(kFormats.rows[i]->title);
  }
  sentence.add("); ");
  return sentence;
}();

}  // namespace

#ifdef ESPALIER_OPENS_ITS_OWN_FORMAT_ALONE
// The tables then only say what the formats are called. Nothing refers to an opener of another
// format, so a linker leaves them all out.
std::span<const FileKind> file_kinds() { return {}; }
std::span<const ArchiveKind> archive_kinds() { return {}; }
std::string_view no_known_format() { return "not an Espalier file; "; }
std::string_view mend_of_unknown() {
  return "if it is a checkpoint of another format, which this program is not built to open, "
         "convert it: espalier convert FILE NEW.espalier";
}
#else
std::span<const FileKind> file_kinds() { return kFiles; }
std::span<const ArchiveKind> archive_kinds() { return kArchives; }
std::string_view no_known_format() { return {kNoKnownFormat.text, kNoKnownFormat.size}; }
std::string_view mend_of_unknown() {
  return "check that this is the right file and that its download is complete";
}
#endif

std::unique_ptr<OpeningMachine> make_own_opener(const OpenOptions& options) {
  return make_machine<Opener>(options);
}

std::span<const FormatInfo* const> all_formats() { return {kFormats.rows.data(), kFormats.count}; }

}  // namespace espalier
