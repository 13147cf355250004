#include "espalier/foreign/onnx/model_builder.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "espalier/base/counted.h"
#include "espalier/dtype.h"
#include "espalier/foreign/common/varint.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

using Message = OnnxMessage;
using What = OnnxField::What;
using Place = OnnxTensor::Place;

// More than a model has, and fewer than the messages inside each other that protobuf reads.
constexpr std::uint32_t kMostGraphs = 32;

// Numbers of fields that are named here and in fields.cpp.
constexpr std::uint32_t kAttributeFloat = 2, kAttributeInt = 3, kAttributeTensor = 5,
                        kAttributeGraph = 6, kAttributeFloats = 7, kAttributeInts = 8,
                        kAttributeSparse = 22;
constexpr std::uint32_t kSegment = 3;

// The metadata by the number of their fields in the model.
std::string_view name_of_fact(std::uint32_t number) {
  constexpr std::string_view kNames[] = {
      "",       "ir_version",    "producer_name", "producer_version",
      "domain", "model_version", "doc_string"};
  return kNames[number];
}

std::optional<std::uint64_t> decimal(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_all = error == std::errc() && end == text.data() + text.size();
  return is_all ? std::optional(value) : std::nullopt;
}

}  // namespace

OnnxModelBuilder::OnnxModelBuilder(std::uint64_t text_limit) : composable_(text_limit) {
  add_container(Kind::kDict);
  add_container(Kind::kDict);
}

bool OnnxModelBuilder::bad(std::string_view message, ErrorCode code) {
  error_ = Error{code, Error::kNoOffset, {}, message};
  return false;
}

bool OnnxModelBuilder::wants_contents(Message message, const OnnxField& field) const {
  switch (field.what) {
    case What::kText:
      // The texts of attributes may be long: programs of other machines, for one.
      return message != Message::kAttribute || field.number == 1 || is_in_constant();
    case What::kDims:
      return true;
    case What::kData:
      return message == Message::kAttribute && is_in_constant();
    default:
      return false;
  }
}

bool OnnxModelBuilder::enter(Message parent, Message message, std::uint64_t begin) {
  switch (message) {
    case Message::kGraph:
      if (++graphs_ > kMostGraphs) {
        return bad("the graphs are nested more than " + std::to_string(kMostGraphs) + " deep",
                   ErrorCode::kLimitExceeded);
      }
      has_graph_ |= parent == Message::kModel;
      scopes_.push_back(parent == Message::kModel ? kOnnxState : add_container(Kind::kDict));
      break;
    case Message::kFunction:
      scopes_.push_back(add_container(Kind::kDict));
      function_name_ = function_domain_ = function_overload_ = {};
      break;
    case Message::kNode:
      ++model_.nodes;
      nodes_.push_back({.texts_begin = model_.texts.size()});
      break;
    case Message::kAttribute:
      attributes_.emplace_back();
      break;
    case Message::kTensor:
      tensor_ = {.first_dim = static_cast<std::uint32_t>(model_.dims.size()), .begin = begin};
      tensor_strings_.clear();
      data_location_ = 0;
      external_ = {};
      has_external_ = false;
      break;
    case Message::kSparse:
      sparse_ = {};
      break;
    case Message::kTraining:
      ++trainings_;
      break;
    case Message::kPair:
      pair_begin_ = model_.texts.size();
      pair_key_ = pair_value_ = {};
      break;
    case Message::kOpset:
      opset_domain_ = {};
      opset_version_ = 0;
      break;
    case Message::kModel:
      break;
  }
  return true;
}

bool OnnxModelBuilder::leave(Message parent, Message message, std::uint32_t number) {
  switch (message) {
    case Message::kTensor:
      return leave_tensor(parent, number);
    case Message::kSparse: {
      auto entry = finish_sparse();
      if (!entry) return false;
      if (parent == Message::kGraph) {
        put(scopes_.back(), sparse_.name, *entry);
      } else {
        attributes_.back().values.push_back({number, *entry});
      }
      return true;
    }
    case Message::kPair:
      return leave_pair(parent);
    case Message::kGraph:
      leave_graph(parent, number);
      break;
    case Message::kAttribute:
      leave_attribute(parent);
      break;
    case Message::kNode:
      leave_node();
      break;
    case Message::kFunction:
      leave_function();
      break;
    case Message::kOpset:
      leave_opset();
      break;
    case Message::kTraining:
    case Message::kModel:
      break;
  }
  if (!is_composed_too_much_) return true;
  return bad(
      "the names of nodes, put together with those of their attributes, take more bytes "
      "than Limits::foreign_header_bytes allows",
      ErrorCode::kLimitExceeded);
}

bool OnnxModelBuilder::take(Message message, const OnnxFieldAt& field) {
  switch (field.what) {
    case What::kUnknown:
      ++model_.unknown_fields;
      return true;
    case What::kText:
      return take_text(message, field);
    case What::kNumber:
      take_number(message, field);
      return true;
    case What::kDims:
      return take_dims(field, message == Message::kTensor ? model_.dims : sparse_.dims);
    case What::kData:
      return message == Message::kTensor ? take_data(field) : take_attribute_numbers(field);
    case What::kRaw:
      if (tensor_.place != Place::kNowhere) {
        return bad("the tensor has its numbers twice: in raw_data and in another field");
      }
      tensor_.place = Place::kRaw;
      tensor_.data = {0, field.contents_begin, field.length};
      return true;
    case What::kSkipped:
      if (message != Message::kTensor) return true;
      if (field.number == kSegment) {
        return bad(
            "the tensor is a segment of a larger one, which no program puts together; save "
            "the model anew without segments",
            ErrorCode::kUnsupportedFeature);
      }
      ++model_.tensor_texts;
      return true;
    case What::kMessage:
      break;
  }
  return true;
}

bool OnnxModelBuilder::finish() {
  if (!has_graph_) return bad("the model has no graph", ErrorCode::kForeignInvalid);
  return true;
}

// --- Fields
// ---------------------------------------------------------------------------------------

bool OnnxModelBuilder::take_text(Message message, const OnnxFieldAt& field) {
  const auto kept = [&] { return keep(as_text(field.contents)); };
  switch (message) {
    case Message::kModel:
      put_text(kOnnxMetadata, name_of_fact(field.number), kept());
      break;
    case Message::kGraph:
      if (scopes_.back() == kOnnxState) put_text(kOnnxMetadata, "graph_name", kept());
      break;
    case Message::kNode: {
      Node& node = nodes_.back();
      if (field.number == 2) {
        if (node.output.length == 0) node.output = kept();
      } else {
        (field.number == 3 ? node.name : field.number == 4 ? node.type : node.domain) = kept();
      }
      break;
    }
    case Message::kAttribute:
      if (field.number == 1) {
        attributes_.back().name = kept();
      } else if (is_in_constant()) {
        attributes_.back().texts.push_back({.type = OnnxEntry::Type::kText, .text = kept()});
      } else if (!nodes_.empty() && nodes_.back().type.length == 0) {
        nodes_.back().has_missed = true;
      }
      break;
    case Message::kTensor:
      if (field.number == 8) {
        tensor_.name = kept();
      } else {
        tensor_strings_.push_back({.type = OnnxEntry::Type::kText, .text = kept()});
      }
      break;
    case Message::kFunction:
      (field.number == 1    ? function_name_
       : field.number == 10 ? function_domain_
                            : function_overload_) = kept();
      break;
    case Message::kPair:
      (field.number == 1 ? pair_key_ : pair_value_) = kept();
      break;
    case Message::kOpset:
      opset_domain_ = kept();
      break;
    case Message::kSparse:
    case Message::kTraining:
      break;
  }
  return true;
}

void OnnxModelBuilder::take_number(Message message, const OnnxFieldAt& field) {
  if (message == Message::kModel) {
    put_number(kOnnxMetadata, name_of_fact(field.number), field.value);
  } else if (message == Message::kOpset) {
    opset_version_ = field.value;
  } else if (message == Message::kTensor) {
    (field.number == 2 ? tensor_.type : data_location_) = field.value;
  }
}

bool OnnxModelBuilder::take_dims(const OnnxFieldAt& field, std::vector<std::uint64_t>& dims) {
  std::uint64_t all = 0;
  const auto add = [&](std::uint64_t value) {
    all |= value;
    dims.push_back(value);
  };
  if (!field.is_bytes) {
    add(field.value);
  } else {
    // There may be none.
    for (std::size_t at = 0; at < field.contents.size();) {
      const auto value = read_varint(field.contents, at);
      if (!value) return bad("the shape is cut");
      add(*value);
    }
  }
  if (all >> 63 != 0) return bad("a dimension is negative");
  return true;
}

bool OnnxModelBuilder::take_data(const OnnxFieldAt& field) {
  if (field.is_bytes && field.length == 0) return true;
  if (tensor_.place == Place::kNowhere) {
    tensor_.place = Place::kFields;
    tensor_.field = field.number;
    tensor_.numbers = field.numbers;
    tensor_.data = {0, field.begin, 0};
    tensor_.is_packed = field.is_bytes;
    tensor_.packed = {0, field.contents_begin, field.length};
  } else if (tensor_.place == Place::kFields && tensor_.field == field.number) {
    tensor_.is_packed = false;
  } else {
    return bad("the tensor has its numbers twice, in two fields");
  }
  tensor_.data.length = field.end() - tensor_.data.offset;
  return true;
}

bool OnnxModelBuilder::take_attribute_numbers(const OnnxFieldAt& field) {
  if (!is_in_constant()) {
    if (!nodes_.empty() && nodes_.back().type.length == 0) nodes_.back().has_missed = true;
    return true;
  }
  Attribute& attribute = attributes_.back();
  const bool is_float = field.numbers == OnnxNumbers::kFloats;
  std::uint64_t count = 1;
  if (field.is_bytes && is_float) {
    if (field.length % 4 != 0) return bad("the last of the numbers is cut");
    count = field.length / 4;
  } else if (field.is_bytes) {
    count = 0;
    for (std::size_t at = 0; at < field.contents.size(); ++count) {
      if (!read_varint(field.contents, at)) return bad("one of the numbers is cut");
    }
  }
  if (!attribute.numbers) {
    attribute.numbers = OnnxTensor{.type = is_float ? kOnnxFloat : kOnnxInt64,
                                   .begin = field.begin,
                                   .place = Place::kFields,
                                   .data = {0, field.begin, 0},
                                   .field = field.number,
                                   .numbers = field.numbers,
                                   .packed = {0, field.contents_begin, field.length},
                                   .is_packed = is_float};
  } else if (attribute.numbers->field != field.number) {
    return bad("a constant has two values");
  } else {
    attribute.numbers->is_packed = false;
  }
  attribute.numbers->data.length = field.end() - attribute.numbers->data.offset;
  attribute.count += count;
  return true;
}

// --- Tensors
// --------------------------------------------------------------------------------------

// Of external data, each key but these is gone over: there are a checksum, which no program
// compares, and a path of the machine that wrote the file.
bool OnnxModelBuilder::take_external(std::string_view key, std::string_view value) {
  has_external_ = true;
  if (key == "location") {
    if (external_.file) return bad("the tensor has two locations");
    if (value.starts_with("*/_ORT_MEM_ADDR_")) {
      return bad(
          "the tensor lies in the memory of the program that wrote the model; save it "
          "there with external data");
    }
    if (value.starts_with("./")) value.remove_prefix(2);
    // Usually all of them lie in one file.
    if (!model_.files.empty() && model_.files.back() == value) {
      external_.file = static_cast<std::uint32_t>(model_.files.size());
      return true;
    }
    // "../../.ssh/id_rsa" must not be opened.
    if (!is_sibling_name(value)) {
      return bad("the tensor lies in the file '" + std::string(value) +
                 "'; files of a model must have plain names, in its folder");
    }
    auto found = files_.find(value);
    if (found == files_.end()) {
      model_.files.emplace_back(value);
      found = files_.emplace(value, static_cast<std::uint32_t>(model_.files.size())).first;
    }
    external_.file = found->second;
  } else if (key == "offset" || key == "length") {
    auto& number = key == "offset" ? external_.offset : external_.length;
    if (number) return bad("the tensor has the key '" + std::string(key) + "' twice");
    number = decimal(value);
    if (!number) {
      return bad("the " + std::string(key) + " of the tensor is '" + std::string(value) +
                 "', which is no number of digits");
    }
  }
  return true;
}

bool OnnxModelBuilder::finish_external() {
  if (data_location_ > 1) {
    return bad("the tensor has the data_location " + std::to_string(data_location_) +
               ", and there are 0 and 1");
  }
  if (!has_external_ && data_location_ == 0) return true;
  if (tensor_.place != Place::kNowhere) {
    return bad("the tensor has its numbers twice: in the model and in another file");
  }
  if (data_location_ == 0) {
    return bad("the tensor has external_data, and its data_location is not EXTERNAL");
  }
  if (!external_.file) return bad("the tensor lies in another file, and none is named");
  tensor_.place = Place::kExternal;
  tensor_.has_length = external_.length.has_value();
  tensor_.data = {*external_.file, external_.offset.value_or(0), external_.length.value_or(0)};
  return true;
}

std::optional<OnnxEntry> OnnxModelBuilder::finish_tensor() {
  tensor_.rank = static_cast<std::uint32_t>(model_.dims.size()) - tensor_.first_dim;
  const OnnxType type = onnx_type(tensor_.type);
  if (type.name.empty()) {
    return bad("the tensor has the type " + std::to_string(tensor_.type) +
               (tensor_.type == 0 ? ", which is none"
                                  : ", which this version does not know; use a newer Espalier")),
           std::nullopt;
  }
  if (!finish_external()) return std::nullopt;
  if (tensor_.type == kOnnxString) {
    const auto shape = model_.shape(tensor_);
    if (tensor_.place != Place::kNowhere || shape_elements(shape) != tensor_strings_.size()) {
      return bad("the tensor does not have a string for each of its elements"), std::nullopt;
    }
    return strings(shape, std::move(tensor_strings_));
  }
  if (!tensor_strings_.empty() ||
      (tensor_.place == Place::kFields && tensor_.numbers != type.numbers)) {
    return bad("the tensor has its numbers in a field that is not that of its type, " +
               std::string(type.name)),
           std::nullopt;
  }
  model_.tensors.push_back(tensor_);
  return OnnxEntry{.type = OnnxEntry::Type::kTensor, .value = model_.tensors.size() - 1};
}

bool OnnxModelBuilder::leave_tensor(Message parent, std::uint32_t number) {
  auto entry = finish_tensor();
  if (!entry) return false;
  if (parent == Message::kGraph) {
    put(scopes_.back(), tensor_.name, *entry);
  } else if (parent == Message::kAttribute) {
    attributes_.back().values.push_back({number, *entry});
  } else if (number == 1) {
    sparse_.name = tensor_.name;
    sparse_.values = *entry;
  } else {
    sparse_.indices = *entry;
  }
  return true;
}

std::optional<OnnxEntry> OnnxModelBuilder::finish_sparse() {
  if (!sparse_.values || !sparse_.indices) {
    return bad("a sparse tensor has no values or no indices"), std::nullopt;
  }
  const std::uint32_t record = add_container(Kind::kRecord, "onnx.sparse");
  put(record, keep("values"), *sparse_.values);
  put(record, keep("indices"), *sparse_.indices);
  const OnnxEntry shape = list_of(sparse_.dims);
  put(record, keep("shape"), shape);
  return OnnxEntry{.type = OnnxEntry::Type::kContainer, .value = record};
}

// --- The tree
// -------------------------------------------------------------------------------------

void OnnxModelBuilder::leave_graph(Message parent, std::uint32_t number) {
  --graphs_;
  const std::uint32_t scope = scopes_.back();
  scopes_.pop_back();
  const OnnxEntry entry{.type = OnnxEntry::Type::kContainer, .value = scope};
  if (parent == Message::kAttribute) {
    // In a list, an empty one keeps its place.
    if (number == kAttributeGraph && drop_if_empty(scope)) return;
    attributes_.back().values.push_back({number, entry});
  } else if (parent == Message::kTraining && !drop_if_empty(scope)) {
    const OnnxText parts[] = {keep("training_info"), keep(std::to_string(trainings_ - 1)),
                              keep(number == 1 ? "initialization" : "algorithm")};
    put(kOnnxState, compose({parts[0], parts[1], parts[2]}, "."), entry);
  }
}

void OnnxModelBuilder::leave_attribute(Message parent) {
  Attribute attribute = std::move(attributes_.back());
  attributes_.pop_back();
  if (parent == Message::kFunction) return add_attribute(attribute, attribute.name);
  if (is_in_constant()) {
    if (const auto value = constant_value(attribute)) attribute.values.push_back({0, *value});
  }
  if (!attribute.values.empty()) nodes_.back().attributes.push_back(std::move(attribute));
}

// What a Constant has in place of a tensor.
std::optional<OnnxEntry> OnnxModelBuilder::constant_value(Attribute& attribute) {
  const std::string name(text(attribute.name));
  const std::uint32_t field = attribute.numbers ? attribute.numbers->field : 0;
  const bool is_list = name == "value_floats" || name == "value_ints";
  if ((name == "value_float" && field == kAttributeFloat) ||
      (name == "value_int" && field == kAttributeInt) ||
      (name == "value_floats" && (field == kAttributeFloats || field == 0)) ||
      (name == "value_ints" && (field == kAttributeInts || field == 0))) {
    OnnxTensor tensor = attribute.numbers.value_or(
        OnnxTensor{.type = name == "value_ints" ? kOnnxInt64 : kOnnxFloat});
    tensor.first_dim = static_cast<std::uint32_t>(model_.dims.size());
    tensor.rank = is_list ? 1 : 0;
    if (is_list) model_.dims.push_back(attribute.count);
    model_.tensors.push_back(tensor);
    return OnnxEntry{.type = OnnxEntry::Type::kTensor, .value = model_.tensors.size() - 1};
  }
  if (name == "value_string" && attribute.texts.size() == 1) return attribute.texts.front();
  if (name != "value_strings") return std::nullopt;
  const std::uint64_t count = attribute.texts.size();
  return strings({&count, 1}, std::move(attribute.texts));
}

void OnnxModelBuilder::leave_node() {
  const Node node = std::move(nodes_.back());
  nodes_.pop_back();
  const bool is_named = is_constant(node) && node.output.length > 0;
  for (const Attribute& attribute : node.attributes) {
    add_attribute(attribute, is_named ? node.output : key_of(node, attribute));
  }
  if (is_constant(node) && node.has_missed) {
    model_.notes.add({Note::Kind::kLoss,
                      {},
                      "the value of the constant '" + std::string(text(node.output)) +
                          "' stands before its type, and was not read"});
  }
  if (node.attributes.empty()) model_.texts.resize(node.texts_begin);
}

// Names of nodes need not be unique, and those of outputs are.
OnnxText OnnxModelBuilder::key_of(const Node& node, const Attribute& attribute) {
  const OnnxText first = node.name.length > 0 ? node.name : node.output;
  const OnnxText key = compose({first.length > 0 ? first : node.type, attribute.name}, ".");
  const auto is_new = [&](OnnxText one) {
    return used_.emplace(scopes_.back(), std::string(text(one))).second;
  };
  if (is_new(key) || node.output.length == 0) return key;
  const OnnxText other = compose({node.output, attribute.name}, ".");
  is_new(other);
  return other;
}

void OnnxModelBuilder::add_attribute(const Attribute& attribute, OnnxText key) {
  std::map<std::uint32_t, std::uint32_t> lists;
  for (const auto& [number, value] : attribute.values) {
    if (number == 0 || number == kAttributeTensor || number == kAttributeGraph ||
        number == kAttributeSparse) {
      put(scopes_.back(), key, value);
      continue;
    }
    const auto [list, is_new] = lists.try_emplace(number, 0);
    if (is_new) {
      list->second = add_container(Kind::kList);
      put(scopes_.back(), key, {.type = OnnxEntry::Type::kContainer, .value = list->second});
    }
    put(list->second, {}, value);
  }
}

void OnnxModelBuilder::leave_function() {
  const std::uint32_t scope = scopes_.back();
  scopes_.pop_back();
  if (drop_if_empty(scope)) return;
  const OnnxText key = function_overload_.length == 0
                           ? compose({function_domain_, function_name_}, "::")
                           : compose({function_domain_, function_name_, function_overload_}, "::");
  put(kOnnxState, key, {.type = OnnxEntry::Type::kContainer, .value = scope});
}

bool OnnxModelBuilder::leave_pair(Message parent) {
  if (parent == Message::kTensor) {
    const bool ok = take_external(text(pair_key_), text(pair_value_));
    model_.texts.resize(pair_begin_);
    return ok;
  }
  if (properties_ == 0) {
    properties_ = add_container(Kind::kDict);
    put(kOnnxMetadata, keep("metadata_props"),
        {.type = OnnxEntry::Type::kContainer, .value = properties_});
  }
  put(properties_, pair_key_, {.type = OnnxEntry::Type::kText, .text = pair_value_});
  return true;
}

void OnnxModelBuilder::leave_opset() {
  if (opsets_ == 0) {
    opsets_ = add_container(Kind::kDict);
    put(kOnnxMetadata, keep("opset_import"),
        {.type = OnnxEntry::Type::kContainer, .value = opsets_});
  }
  // ONNX has two names for its own.
  put(opsets_, opset_domain_.length > 0 ? opset_domain_ : keep("ai.onnx"),
      {.value = opset_version_});
}

void OnnxModelBuilder::add_copy(std::string copy) {
  if (copy.empty()) return;
  model_.copy = std::move(copy);
  put(kOnnxMetadata, keep("model"), {.type = OnnxEntry::Type::kCopy});
}

bool OnnxModelBuilder::is_constant(const Node& node) const {
  const std::string_view domain = text(node.domain);
  return text(node.type) == "Constant" && (domain.empty() || domain == "ai.onnx");
}

OnnxText OnnxModelBuilder::keep(std::string_view text) {
  const OnnxText piece{static_cast<std::uint32_t>(model_.texts.size()),
                       static_cast<std::uint32_t>(text.size())};
  model_.texts += text;
  return piece;
}

// A name of a megabyte may stand before that of each attribute.
OnnxText OnnxModelBuilder::compose(std::initializer_list<OnnxText> parts,
                                   std::string_view between) {
  std::string whole;
  for (const OnnxText& part : parts) {
    if (&part != parts.begin()) whole += between;
    whole += text(part);
  }
  if (whole.size() > composable_) {
    is_composed_too_much_ = true;
    return {};
  }
  composable_ -= whole.size();
  return keep(whole);
}

std::uint32_t OnnxModelBuilder::add_container(Kind kind, std::string_view label) {
  model_.containers.push_back({kind, label});
  return static_cast<std::uint32_t>(model_.containers.size() - 1);
}

// What was added since then was dropped, too, if it was empty.
bool OnnxModelBuilder::drop_if_empty(std::uint32_t container) {
  if (!model_.containers[container].entries.empty()) return false;
  if (container + 1 == model_.containers.size()) model_.containers.pop_back();
  return true;
}

void OnnxModelBuilder::put(std::uint32_t container, OnnxText key, OnnxEntry value) {
  value.key = key;
  model_.containers[container].entries.push_back(value);
}

void OnnxModelBuilder::put_number(std::uint32_t container, std::string_view key,
                                  std::uint64_t value) {
  put(container, keep(key), {.value = value});
}

void OnnxModelBuilder::put_text(std::uint32_t container, std::string_view key, OnnxText text) {
  put(container, keep(key), {.type = OnnxEntry::Type::kText, .text = text});
}

OnnxEntry OnnxModelBuilder::list_of(std::span<const std::uint64_t> numbers) {
  const std::uint32_t list = add_container(Kind::kList);
  for (const std::uint64_t number : numbers) put(list, {}, {.value = number});
  return {.type = OnnxEntry::Type::kContainer, .value = list};
}

OnnxEntry OnnxModelBuilder::strings(std::span<const std::uint64_t> shape,
                                    std::vector<OnnxEntry> values) {
  const std::uint32_t record = add_container(Kind::kRecord, "onnx.string");
  const OnnxEntry axes = list_of(shape);
  put(record, keep("shape"), axes);
  const std::uint32_t list = add_container(Kind::kList);
  model_.containers[list].entries = std::move(values);
  put(record, keep("values"), {.type = OnnxEntry::Type::kContainer, .value = list});
  return {.type = OnnxEntry::Type::kContainer, .value = record};
}

}  // namespace espalier
