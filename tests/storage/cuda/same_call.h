// Whether a function that is declared here is called as one of a library's header.
#pragma once

#include <type_traits>

namespace terrace::cuda {

// What the two must share for a call through one to be a call of the other: enums are ints there.
template <typename A, typename B>
constexpr bool same_shape_v =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> ==
                                  std::is_pointer_v<B>&& std::is_floating_point_v<A> ==
                                  std::is_floating_point_v<B>;

template <typename Ours, typename Theirs>
struct SameCall : std::false_type {};
template <typename R1, typename... P1, typename R2, typename... P2>
requires(sizeof...(P1) == sizeof...(P2)) struct SameCall<R1 (*)(P1...), R2 (*)(P2...)>
    : std::bool_constant<same_shape_v<R1, R2> && (same_shape_v<P1, P2> && ...)> {
};

}  // namespace terrace::cuda
