// What core-torch.wasm opens: the files of PyTorch and NumPy. wasm/src/core/choose.ts knows them by
// their first bytes.
#include "foreign_options.h"
#include "opening_machine.h"

#include "espalier/foreign/any_archive.h"
#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/formats.h"
#include "espalier/foreign/numpy/npy_opener.h"
#include "espalier/foreign/numpy/npz_reader.h"
#include "espalier/foreign/torch/archive_reader.h"
#include "espalier/foreign/torch/pickle_opener.h"
#include "espalier/foreign/zip/opener.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

std::unique_ptr<OpeningMachine> make_zip(const OpenOptions& options) {
  return std::make_unique<ZipOpener>(options, choose_content_reader);
}

// In the order of foreign/formats.cpp.
constexpr FileKind kFiles[] = {
    {looks_like_npy, make_machine<NpyOpener>},
    {looks_like_zip, make_zip},
    {looks_like_pickle, make_machine<PickleOpener>},
};

constexpr ArchiveKind kArchives[] = {
    {is_torch_archive, make_torch_reader},
    {is_npz, make_reader<NpzReader>},
};

}  // namespace

std::span<const FileKind> file_kinds() { return kFiles; }
std::span<const ArchiveKind> archive_kinds() { return kArchives; }

std::unique_ptr<OpeningMachine> make_own_opener(const OpenOptions&) { return nullptr; }

namespace abi {

std::unique_ptr<OpeningMachine> make_opening_machine(const OpenOptions& options) {
  return std::make_unique<AnyOpener>(foreign_options(options));
}

}  // namespace abi
}  // namespace espalier
