#include "espalier/foreign/formats.h"

#include "espalier/foreign/any_archive.h"
#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/dcp/metadata.h"
#include "espalier/foreign/dcp/opener.h"
#include "espalier/foreign/gguf/opener.h"
#include "espalier/foreign/msgpack/opener.h"
#include "espalier/foreign/numpy/npy_opener.h"
#include "espalier/foreign/numpy/npz_reader.h"
#include "espalier/foreign/safetensors/opener.h"
#include "espalier/foreign/shards/opener.h"
#include "espalier/foreign/torch/archive_reader.h"
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

// What has no magic comes last: those of others, as a number, may be a length that fits a large
// file.
constexpr FileKind kFiles[] = {
    {looks_like_npy, make_machine<NpyOpener>},
    {looks_like_zip, make_zip},
    {looks_like_gguf, make_machine<GgufOpener>},
    // Before safetensors, which takes any file with a brace as its ninth byte.
    {looks_like_shard_index, make_sharded},
    {looks_like_msgpack, make_machine<MsgpackOpener>},
    {looks_like_safetensors, make_machine<SafetensorsOpener>},
    // After it: a pickle begins with two bytes that may begin a length.
    {looks_like_dcp, make_machine<DcpOpener>},
    {looks_like_pickle, make_machine<PickleOpener>},
};

constexpr ArchiveKind kArchives[] = {
    {is_torch_archive, make_torch_reader},
    {is_npz, make_reader<NpzReader>},
};

}  // namespace

std::span<const FileKind> file_kinds() { return kFiles; }
std::span<const ArchiveKind> archive_kinds() { return kArchives; }

std::unique_ptr<OpeningMachine> make_own_opener(const OpenOptions& options) {
  return make_machine<Opener>(options);
}

}  // namespace espalier
