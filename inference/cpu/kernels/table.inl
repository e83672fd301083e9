// The table of an instruction set, from the kernels compiled before this point.
#pragma once

namespace terrace::inference {
namespace {

constexpr KernelTable make_table(Isa isa, Operand bf16_operand) {
  KernelTable table{};
  table.isa = isa;
  table.bf16_operand = bf16_operand;
  table.paired_weights = TERRACE_PAIRED_WEIGHTS;
  table.linear = linear_kernel;
  table.attend = attend_kernel;
  table.merge_states = merge_states_kernel;
  table.finish_state = finish_state_kernel;
  table.store_kv = store_kv_kernel;
  table.convert = convert_kernel;
  table.rms_norm = rms_norm_kernel;
  table.silu_up = silu_up_kernel;
  table.rope = rope_kernel;
  table.add = add_kernel;
  table.exp2 = exp2_kernel;
  table.spin_multiply = spin_multiply_kernel;
  table.read = read_kernel;
  return table;
}

}  // namespace
}  // namespace terrace::inference
