#include "espalier/foreign/hdf5/tables.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"
#include "espalier/base/little_endian.h"
#include "espalier/base/utf8.h"
#include "espalier/foreign/common/reader_error.h"
#include "espalier/foreign/hdf5/child_names.h"
#include "espalier/foreign/hdf5/chunk_maker.h"
#include "espalier/format/table_builder.h"
#include "espalier/key_path.h"

namespace espalier {
namespace {

// An array that was never written takes no bytes of the file, and may have any shape.
constexpr std::uint64_t kLargeArray = std::uint64_t{4} << 30;
constexpr std::uint64_t kMostGrowth = 1000;

// What reading all of an array decodes: its chunks may be far larger than it is.
std::uint64_t decoded_bytes(const Hdf5Dataset& dataset) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  if (dataset.place != Hdf5Dataset::Place::kChunked || dataset.filters.empty() ||
      dataset.chunking.address == kHdf5Undefined) {
    return dataset.bytes;
  }
  std::uint64_t bytes = dataset.chunking.bytes;
  const auto& chunk = dataset.chunking.shape;
  const auto& shape = dataset.space.shape;
  for (std::size_t axis = 0; axis < std::min(chunk.size(), shape.size()); ++axis) {
    if (chunk[axis] == 0) return dataset.bytes;
    const std::uint64_t count = shape[axis] / chunk[axis] + (shape[axis] % chunk[axis] > 0 ? 1 : 0);
    bytes = checked_mul(bytes, count).value_or(kMost);
  }
  return std::max(bytes, dataset.bytes);
}

// Keras's names of types that NumPy has not.
constexpr std::string_view kEightBits = "float8_";

class Hdf5Tables {
 public:
  Hdf5Tables(const Hdf5File& file, std::span<const Hdf5Document> documents,
             const Hdf5TreeOptions& options, const Limits& limits, FileSet& files,
             ForeignParts& parts)
      : file_(file),
        documents_(documents),
        options_(options),
        limits_(limits),
        files_(files),
        parts_(parts),
        names_(file, options.keeps_keys),
        builder_(limits),
        tensors_(file.objects().size(), kNone),
        is_shown_(file.objects().size()) {
    const auto model = file.objects().front().text("model_config");
    is_of_bfloat16_ = model && model->find("bfloat16") != model->npos;
  }

  Result<void> run() {
    builder_.container(Kind::kDict);
    builder_.container(Kind::kDict);
    is_shown_[0] = true;
    inner_.push_back({.node = kStateRoot, .group = 0});
    add_containers();
    add_metadata();
    if (error_) return tl::unexpected<Error>(std::move(*error_));
    if (damage_) parts_.files.push_back({.problem = std::move(damage_)});
    auto tables = builder_.finish();
    if (!tables) {
      make_reader_error(tables.error());
      return propagate(tables);
    }
    parts_.tables = std::move(*tables);
    return {};
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // A container whose children are to be added: a group, a list, or the attributes of an object.
  struct Open {
    std::uint32_t node = 0;
    std::uint32_t group = kNone;
    const Hdf5Value* list = nullptr;
    std::uint32_t owner = kNone;
    std::string path = {};
  };

  // All that is in the first container stands before the contents of the second.
  void add_containers() {
    while (!error_) {
      std::move(inner_.rbegin(), inner_.rend(), std::back_inserter(open_));
      inner_.clear();
      if (open_.empty()) return;
      const Open open = std::move(open_.back());
      open_.pop_back();
      if (open.group != kNone) {
        if (!add_group(open)) return;
      } else if (open.owner != kNone) {
        if (!add_attributes(open)) return;
      } else {
        if (!builder_.open(open.node, open.list->items.size())) return;
        for (const Hdf5Value& item : open.list->items) add_value(item);
      }
    }
  }

  bool add_group(const Open& open) {
    const auto children = names_.of(open.group);
    if (!builder_.open(open.node, children.size())) return false;
    for (const Hdf5Child& child : children) {
      const std::string_view key = valid(child.name);
      path_ = open.path;
      append_path(path_, KeyView::of(key), DigitMark::kNever);
      if (!take_text(path_.size()) || !builder_.key(KeyView::of(key))) return false;
      if (key.data() != child.name.data()) {
        note(Note::Kind::kWarning, "its name is not UTF-8 and is shown escaped");
      }
      add_link(open.group, child.link);
    }
    return true;
  }

  void add_link(std::uint32_t group, std::uint32_t number) {
    const Hdf5Object& object = file_.objects()[group];
    const Hdf5Link& link = object.links[number];
    if (link.kind == Hdf5Link::Kind::kHard) return add_object(object.children[number]);
    const auto target =
        link.kind == Hdf5Link::Kind::kSoft ? file_.follow(group, link) : std::nullopt;
    if (target && file_.objects()[*target].kind == Hdf5Object::Kind::kArray) {
      return add_object(*target);
    }
    builder_.null();
    if (link.kind == Hdf5Link::Kind::kExternal) {
      return note(Note::Kind::kLoss,
                  "it is a link into another file, which is not opened; open that one");
    }
    if (link.kind == Hdf5Link::Kind::kUser) {
      return note(Note::Kind::kLoss, "it is a link of a kind that only its program knows");
    }
    note(Note::Kind::kWarning, "it is a soft link to '" + std::string(link.target) +
                                   (target ? "', which stands there" : "', which is not there"));
  }

  void add_object(std::uint32_t number) {
    const Hdf5Object& object = file_.objects()[number];
    if (tensors_[number] != kNone) return builder_.known_tensor(tensors_[number]);
    if (is_shown_[number]) {
      builder_.null();
      return note(Note::Kind::kWarning,
                  "it is another name of " + file_.path(number) + ", which stands there");
    }
    is_shown_[number] = true;
    if (object.problem) return add_problem(object);
    switch (object.kind) {
      case Hdf5Object::Kind::kGroup:
        inner_.push_back({.node = builder_.node_count(), .group = number, .path = path_});
        return builder_.container(Kind::kDict);
      case Hdf5Object::Kind::kArray:
        return add_array(number);
      case Hdf5Object::Kind::kType:
        builder_.null();
        return note(Note::Kind::kWarning, "it is a type with a name, which no tree has");
      case Hdf5Object::Kind::kUnknown:
        return builder_.null();
    }
  }

  void add_problem(const Hdf5Object& object) {
    const Error& problem = *object.problem;
    const bool is_array = object.dataset && object.dataset->element_bytes > 0 &&
                          !object.dataset->type.is_variable() && !object.dataset->space.is_null;
    if (is_array && problem.code == ErrorCode::kUnsupportedFeature) {
      const Hdf5Type& type = object.dataset->type;
      builder_.placeholder({type.dtype, shape_of(*object.dataset, type.dtype), block_of(type)});
    } else {
      builder_.null();
    }
    if (problem.code == ErrorCode::kUnsupportedFeature) {
      return note(Note::Kind::kLoss, "this cannot be read: " + problem.message);
    }
    note(Note::Kind::kLoss, "this is damaged: " + problem.message);
    if (damage_) return;
    // Makes verification fail, and a conversion of the whole.
    damage_ = problem;
    damage_->path = path_;
  }

  // With the axes of its type, and for opaque elements at least one.
  std::span<const std::uint64_t> shape_of(const Hdf5Dataset& dataset, DType dtype) {
    shape_ = dataset.space.shape;
    shape_.insert(shape_.end(), dataset.type.axes.begin(), dataset.type.axes.end());
    if (shape_.empty() && dtype == DType::kOpaque) shape_.push_back(1);
    return shape_;
  }

  BlockType block_of(const Hdf5Type& type) {
    if (type.dtype != DType::kOpaque) return {};
    return {valid(type.name), 1, static_cast<std::uint32_t>(type.bytes)};
  }

  // The type of elements that ml_dtypes gave h5py, which are stored as bytes without a tag.
  std::optional<DType> named_type(const Hdf5Object& object, const Hdf5Type& type) const {
    if (type.type_class != Hdf5Type::Class::kBlock || !type.tag.empty()) return std::nullopt;
    const auto name = object.text("dtype");
    if (type.name == "|V2" && (name ? *name == "bfloat16" : is_of_bfloat16_)) return DType::kBF16;
    if (type.name == "|V1" && name && name->starts_with(kEightBits)) {
      return dtype_from_name("f8_" + std::string(name->substr(kEightBits.size())));
    }
    return std::nullopt;
  }

  void add_array(std::uint32_t number) {
    const Hdf5Object& object = file_.objects()[number];
    const Hdf5Dataset& dataset = *object.dataset;
    const Hdf5Type& type = dataset.type;
    if (dataset.space.is_null) {
      builder_.label(
          keep("hdf5.empty." + std::string(type.dtype == DType::kOpaque ? valid(type.name)
                                                                        : dtype_name(type.dtype))));
      return builder_.null();
    }
    if (object.value) return add_value(*object.value);
    const DType dtype = named_type(object, type).value_or(type.dtype);
    const auto file = place_of(number);
    if (!file) return;
    tensors_[number] = builder_.tensor_count();
    const auto shape = shape_of(dataset, dtype);
    builder_.tensor({dtype, shape, dtype == DType::kOpaque ? block_of(type) : BlockType()});
    if (type.is_swapped && dataset.bytes > 0) {
      builder_.storage({.flags = kStorageSwapped}, {});
    }
    builder_.place(file->file, file->offset);
    add_type_notes(dataset, dtype);
  }

  void add_type_notes(const Hdf5Dataset& dataset, DType dtype) {
    const Hdf5Type& type = dataset.type;
    if (!type.values.empty()) {
      note(Note::Kind::kLoss, "the names of its values are not kept: " + type.values);
    }
    if (dtype != DType::kOpaque) return;
    if (!type.tag.empty()) {
      note(Note::Kind::kWarning, "its elements are opaque, with the tag '" + type.tag + "'");
    } else if (type.name == "|V2" || type.name == "|V1") {
      note(Note::Kind::kWarning,
           std::string("h5py stores elements of ml_dtypes, such as ") +
               (type.name == "|V2" ? "bfloat16" : "float8_e4m3fn") +
               ", without their type: they are opaque here, and ARRAY.view(ml_dtypes.NAME) in "
               "Python tells NumPy what they are");
    }
    if (dataset.space.shape.empty() && type.axes.empty()) {
      note(Note::Kind::kWarning,
           "this array has one element and no axes; as it is opaque here, it is shown with one "
           "axis, of length 1");
    }
  }

  struct Place {
    std::uint16_t file = 0;
    std::uint64_t offset = 0;
  };
  // Where its elements are; adds a placeholder and a note if they cannot be made.
  std::optional<Place> place_of(std::uint32_t number) {
    const Hdf5Dataset& dataset = *file_.objects()[number].dataset;
    const Hdf5Layout& layout = file_.layout();
    if (dataset.bytes == 0) return Place{options_.file, layout.base};
    if (dataset.place != Hdf5Dataset::Place::kChunked && dataset.address != kHdf5Undefined) {
      return Place{options_.file, layout.base + dataset.address};
    }
    const std::uint64_t length = files_[options_.file].length;
    const std::uint64_t decoded = decoded_bytes(dataset);
    const bool is_bomb = decoded > kLargeArray && decoded / kMostGrowth > length;
    if (options_.is_made || is_bomb ||
        files_.size() > std::numeric_limits<std::uint16_t>::max() - 1) {
      const auto shape = shape_of(dataset, dataset.type.dtype);
      builder_.placeholder({dataset.type.dtype, shape, block_of(dataset.type)});
      note(Note::Kind::kLoss,
           options_.is_made ? "it is in chunks, in a file that is compressed inside another one; "
                              "unpack that (unzip FILE) and open the file in it"
           : is_bomb        ? "it takes " + counted(decoded, "byte") +
                           ", more than a thousand times those of the file, and is not made"
                     : "the file has more than 65,533 arrays in chunks; the others open");
      return std::nullopt;
    }
    const auto file = static_cast<std::uint16_t>(files_.size());
    files_.push_back({.name = escaped(file_.path(number)),
                      .length = dataset.bytes,
                      .maker = std::make_shared<Hdf5ChunkMaker>(file_.objects()[number].dataset,
                                                                layout, options_.file, length,
                                                                limits_.foreign_header_bytes)});
    return Place{file, 0};
  }

  void add_metadata() {
    if (error_ || !builder_.ok()) return;
    struct Owner {
      std::string_view path;
      std::uint32_t object;
    };
    std::vector<Owner> having;
    for (std::uint32_t i = 0; i < file_.objects().size(); ++i) {
      if (file_.objects()[i].attributes.empty()) continue;
      std::string path = file_.path(i);
      if (!take_text(path.size())) return;
      if (find_invalid_utf8(path)) path = escaped(path);
      having.push_back({keep(std::move(path)), i});
    }
    std::sort(having.begin(), having.end(),
              [](const Owner& x, const Owner& y) { return x.path < y.path; });
    if (!builder_.open(kMetadataRoot, documents_.size() + having.size())) return;
    for (const Hdf5Document& document : documents_) {
      builder_.key(KeyView::of(document.name));
      if (find_invalid_utf8(document.text)) {
        builder_.bytes(as_bytes(document.text));
      } else {
        builder_.string(document.text);
      }
    }
    for (const Owner& owner : having) {
      if (!builder_.key(KeyView::of(owner.path))) return;
      inner_.push_back(
          {.node = builder_.node_count(), .owner = owner.object, .path = std::string(owner.path)});
      builder_.container(Kind::kDict);
    }
    add_containers();
  }

  bool add_attributes(const Open& open) {
    const auto& attributes = file_.objects()[open.owner].attributes;
    if (!builder_.open(open.node, attributes.size())) return false;
    for (const Hdf5Attribute& attribute : attributes) {
      const std::string_view key = valid(attribute.name);
      if (!builder_.key(KeyView::of(key))) return false;
      if (!attribute.problem) {
        add_value(attribute.value);
        continue;
      }
      builder_.null();
      path_.clear();
      note(Note::Kind::kLoss, "the attribute '" + std::string(key) + "' of " + open.path +
                                  " cannot be read: " + attribute.problem->message);
      const bool is_damage = attribute.problem->code != ErrorCode::kUnsupportedFeature;
      if (is_damage && !damage_) damage_ = attribute.problem;
    }
    return true;
  }

  void add_value(const Hdf5Value& value) {
    if (!value.label.empty()) builder_.label(valid(value.label));
    switch (value.kind) {
      case Hdf5Value::Kind::kNull:
        return builder_.null();
      case Hdf5Value::Kind::kBool:
        return builder_.boolean(value.integer != 0);
      case Hdf5Value::Kind::kInteger:
        return builder_.integer(value.integer);
      case Hdf5Value::Kind::kUnsigned:
        return add_unsigned(value.natural);
      case Hdf5Value::Kind::kReal:
        return builder_.real(value.real);
      case Hdf5Value::Kind::kComplex:
        return builder_.complex({value.real, value.imaginary});
      case Hdf5Value::Kind::kText:
        if (value.is_bytes) return builder_.bytes(value.text);
        return builder_.string(as_text(value.text));
      case Hdf5Value::Kind::kList:
        inner_.push_back({.node = builder_.node_count(), .list = &value});
        return builder_.container(Kind::kList);
    }
  }

  void add_unsigned(std::uint64_t value) {
    if (value >> 63 == 0) return builder_.integer(static_cast<std::int64_t>(value));
    // One byte more than a u64 has, so that the sign is plus.
    std::array<std::byte, 9> bytes{};
    if (bytes.size() > limits_.bigint_bytes) {
      return builder_.refuse("a u64 takes more bytes than Limits::bigint_bytes allows",
                             ErrorCode::kLimitExceeded);
    }
    store_le(bytes.data(), value);
    builder_.bigint(bytes);
  }

  std::string_view keep(std::string text) { return kept_.emplace_back(std::move(text)); }
  // The text itself, or with its bytes escaped that are no UTF-8.
  std::string_view valid(std::string_view text) {
    return find_invalid_utf8(text) ? keep(escaped(text)) : text;
  }

  // Paths repeat the names of groups: a long one of many arrays would take more than the file.
  bool take_text(std::uint64_t bytes) {
    if (bytes <= limits_.text_bytes - text_bytes_) {
      text_bytes_ += bytes;
      return true;
    }
    error_ = Error{ErrorCode::kLimitExceeded,
                   Error::kNoOffset,
                   {},
                   "the paths of the HDF5 file take more than the " +
                       counted(limits_.text_bytes, "byte") + " of Limits::text_bytes"};
    return false;
  }

  void note(Note::Kind kind, const std::string& message) {
    parts_.notes.add({.kind = kind, .path = path_, .message = message});
  }

  const Hdf5File& file_;
  const std::span<const Hdf5Document> documents_;
  const Hdf5TreeOptions options_;
  const Limits& limits_;
  FileSet& files_;
  ForeignParts& parts_;
  const Hdf5ChildNames names_;
  TableBuilder builder_;
  std::vector<Open> open_;   // the next one last
  std::vector<Open> inner_;  // of the one that is being added
  std::deque<std::string> kept_;
  std::string path_;  // of the next node
  std::vector<std::uint64_t> shape_;
  std::vector<std::uint32_t> tensors_;  // by object
  std::vector<bool> is_shown_;
  std::uint64_t text_bytes_ = 0;
  bool is_of_bfloat16_ = false;
  std::optional<Error> damage_;
  std::optional<Error> error_;
};

}  // namespace

Result<void> add_hdf5_tables(const Hdf5File& file, std::span<const Hdf5Document> documents,
                             const Hdf5TreeOptions& options, const Limits& limits, FileSet& files,
                             ForeignParts& parts) {
  return Hdf5Tables(file, documents, options, limits, files, parts).run();
}

}  // namespace espalier
