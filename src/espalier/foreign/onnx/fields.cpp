#include "espalier/foreign/onnx/fields.h"

#include <cstddef>

namespace espalier {
namespace {

using Message = OnnxMessage;
using What = OnnxField::What;

constexpr OnnxField one(std::uint8_t number, What what) { return {number, what, true}; }
constexpr OnnxField many(std::uint8_t number, What what) { return {number, what, false}; }
constexpr OnnxField one(std::uint8_t number, Message message) {
  return {number, What::kMessage, true, message};
}
constexpr OnnxField many(std::uint8_t number, Message message) {
  return {number, What::kMessage, false, message};
}
constexpr OnnxField one(std::uint8_t number, OnnxNumbers numbers) {
  return {number, What::kData, true, {}, numbers};
}
constexpr OnnxField many(std::uint8_t number, OnnxNumbers numbers) {
  return {number, What::kData, false, {}, numbers};
}

constexpr OnnxField kModelFields[] = {
    one(1, What::kNumber),         // ir_version
    one(2, What::kText),           // producer_name
    one(3, What::kText),           // producer_version
    one(4, What::kText),           // domain
    one(5, What::kNumber),         // model_version
    one(6, What::kText),           // doc_string
    one(7, Message::kGraph),       // graph
    many(8, Message::kOpset),      // opset_import
    many(14, Message::kPair),      // metadata_props
    many(20, Message::kTraining),  // training_info
    many(25, Message::kFunction),  // functions
    many(26, What::kSkipped),      // configuration
};
constexpr OnnxField kGraphFields[] = {
    many(1, Message::kNode),     // node
    one(2, What::kText),         // name
    many(5, Message::kTensor),   // initializer
    one(10, What::kSkipped),     // doc_string
    many(11, What::kSkipped),    // input
    many(12, What::kSkipped),    // output
    many(13, What::kSkipped),    // value_info
    many(14, What::kSkipped),    // quantization_annotation
    many(15, Message::kSparse),  // sparse_initializer
    many(16, What::kSkipped),    // metadata_props
};
constexpr OnnxField kNodeFields[] = {
    many(1, What::kSkipped),       // input
    many(2, What::kText),          // output
    one(3, What::kText),           // name
    one(4, What::kText),           // op_type
    many(5, Message::kAttribute),  // attribute
    one(6, What::kSkipped),        // doc_string
    one(7, What::kText),           // domain
    one(8, What::kSkipped),        // overload
    many(9, What::kSkipped),       // metadata_props
    many(10, What::kSkipped),      // device_configurations
};
constexpr OnnxField kAttributeFields[] = {
    one(1, What::kText),            // name
    one(2, OnnxNumbers::kFloats),   // f
    one(3, OnnxNumbers::kInt64s),   // i
    one(4, What::kText),            // s
    one(5, Message::kTensor),       // t
    one(6, Message::kGraph),        // g
    many(7, OnnxNumbers::kFloats),  // floats
    many(8, OnnxNumbers::kInt64s),  // ints
    many(9, What::kText),           // strings
    many(10, Message::kTensor),     // tensors
    many(11, Message::kGraph),      // graphs
    one(13, What::kSkipped),        // doc_string
    one(14, What::kSkipped),        // tp
    many(15, What::kSkipped),       // type_protos
    one(20, What::kNumber),         // type
    one(21, What::kSkipped),        // ref_attr_name
    one(22, Message::kSparse),      // sparse_tensor
    many(23, Message::kSparse),     // sparse_tensors
};
constexpr OnnxField kTensorFields[] = {
    many(1, What::kDims),             // dims
    one(2, What::kNumber),            // data_type
    one(3, What::kSkipped),           // segment
    many(4, OnnxNumbers::kFloats),    // float_data
    many(5, OnnxNumbers::kInt32s),    // int32_data
    many(6, What::kText),             // string_data
    many(7, OnnxNumbers::kInt64s),    // int64_data
    one(8, What::kText),              // name
    one(9, What::kRaw),               // raw_data
    many(10, OnnxNumbers::kDoubles),  // double_data
    many(11, OnnxNumbers::kUint64s),  // uint64_data
    one(12, What::kSkipped),          // doc_string
    many(13, Message::kPair),         // external_data
    one(14, What::kNumber),           // data_location
    many(16, What::kSkipped),         // metadata_props
};
constexpr OnnxField kSparseFields[] = {
    one(1, Message::kTensor),  // values
    one(2, Message::kTensor),  // indices
    many(3, What::kDims),      // dims
};
constexpr OnnxField kFunctionFields[] = {
    one(1, What::kText),            // name
    many(4, What::kSkipped),        // input
    many(5, What::kSkipped),        // output
    many(6, What::kSkipped),        // attribute
    many(7, Message::kNode),        // node
    one(8, What::kSkipped),         // doc_string
    many(9, What::kSkipped),        // opset_import
    one(10, What::kText),           // domain
    many(11, Message::kAttribute),  // attribute_proto
    many(12, What::kSkipped),       // value_info
    one(13, What::kText),           // overload
    many(14, What::kSkipped),       // metadata_props
};
constexpr OnnxField kTrainingFields[] = {
    one(1, Message::kGraph),  // initialization
    one(2, Message::kGraph),  // algorithm
    many(3, What::kSkipped),  // initialization_binding
    many(4, What::kSkipped),  // update_binding
};
constexpr OnnxField kPairFields[] = {
    one(1, What::kText),  // key
    one(2, What::kText),  // value
};
constexpr OnnxField kOpsetFields[] = {
    one(1, What::kText),    // domain
    one(2, What::kNumber),  // version
};

constexpr std::size_t kMessages = 10;
// Numbers of fields are below this.
constexpr std::size_t kNumbers = 32;

// The types that a field may have, as bits.
constexpr std::uint8_t types_of(const OnnxField& field) {
  const auto bit = [](WireType type) {
    return static_cast<std::uint8_t>(1u << static_cast<unsigned>(type));
  };
  if (field.what == What::kNumber) return bit(WireType::kVarint);
  if (field.what != What::kDims && field.what != What::kData) return bit(WireType::kBytes);
  const WireType single = field.numbers == OnnxNumbers::kFloats    ? WireType::kFixed32
                          : field.numbers == OnnxNumbers::kDoubles ? WireType::kFixed64
                                                                   : WireType::kVarint;
  const std::uint8_t packed = field.is_single ? 0 : bit(WireType::kBytes);
  return static_cast<std::uint8_t>(bit(single) | packed);
}

struct Table {
  OnnxField fields[kMessages][kNumbers] = {};

  template <std::size_t kCount>
  constexpr void add(Message message, const OnnxField (&of_message)[kCount]) {
    for (const OnnxField& field : of_message) {
      OnnxField& entry = fields[static_cast<std::size_t>(message)][field.number];
      entry = field;
      entry.types = types_of(field);
    }
  }
};
constexpr Table kTable = [] {
  Table table;
  table.add(Message::kModel, kModelFields);
  table.add(Message::kGraph, kGraphFields);
  table.add(Message::kNode, kNodeFields);
  table.add(Message::kAttribute, kAttributeFields);
  table.add(Message::kTensor, kTensorFields);
  table.add(Message::kSparse, kSparseFields);
  table.add(Message::kFunction, kFunctionFields);
  table.add(Message::kTraining, kTrainingFields);
  table.add(Message::kPair, kPairFields);
  table.add(Message::kOpset, kOpsetFields);
  return table;
}();

}  // namespace

const OnnxField& onnx_field(OnnxMessage message, std::uint32_t number) {
  // None has the number 0.
  return kTable.fields[static_cast<std::size_t>(message)][number < kNumbers ? number : 0];
}

}  // namespace espalier
