#pragma once
/// Errors as values: Result<T> for whatever the outside world may cause to fail.
///
/// Use:     each module has one error enum with two functions beside it, found by ADL:
///              enum class DnsError { timed_out = 1, bad_reply };
///              std::string_view error_module(DnsError);        // "dns"
///              std::string_view describe(DnsError);             // a sentence part, lower case
///          return fail(DnsError::timed_out, "mx example.org");  // Result<T> from any function
///          return fail_errno("open /etc/x");                    // the current errno
///          if (!r && r.error().is(DnsError::timed_out)) …
/// Errors:  values start at 1. A failure that only our own bug can cause is for PEN_CHECK (check.h), not an Error.
#include <cerrno>
#include <concepts>
#include <expected>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace pen {

template <class E>
concept ModuleError = std::is_enum_v<E> && requires(E e) {
  { error_module(e) } -> std::convertible_to<std::string_view>;
  { describe(e) } -> std::convertible_to<std::string_view>;
};

namespace detail {
template <ModuleError E>
class EnumCategory final : public std::error_category {
 public:
  const char* name() const noexcept override { return error_module(E{}).data(); }
  std::string message(int value) const override { return std::string(describe(static_cast<E>(value))); }
};
template <ModuleError E>
const std::error_category& category() {
  static const EnumCategory<E> instance;
  return instance;
}
}  // namespace detail

/// An error: its code (of a module's enum, or errno) and a short context for the reader of a log.
class [[nodiscard]] Error {
 public:
  template <ModuleError E>
  Error(E e, std::string context = {}, int sys_errno = 0)
      : code_(static_cast<int>(e), detail::category<E>()), sys_errno_(sys_errno), context_(std::move(context)) {}
  static Error from_errno(int value, std::string context = {}) {
    Error e;
    e.code_ = std::error_code(value, std::generic_category());
    e.sys_errno_ = value;
    e.context_ = std::move(context);
    return e;
  }

  template <ModuleError E>
  bool is(E e) const {
    return code_.category() == detail::category<E>() && code_.value() == static_cast<int>(e);
  }
  bool is_errno(int value) const { return sys_errno_ == value; }
  const std::error_code& code() const { return code_; }
  /// The errno behind the error, 0 if none.
  int sys_errno() const { return sys_errno_; }
  const std::string& context() const { return context_; }
  /// "context: what happened: errno text", without a final full stop.
  std::string message() const;
  /// The same error seen from one level further out: "outer: context".
  Error within(std::string_view outer) &&;

 private:
  Error() = default;
  std::error_code code_;
  int sys_errno_ = 0;
  std::string context_;
};

template <class T = void>
using Result = std::expected<T, Error>;

template <ModuleError E>
std::unexpected<Error> fail(E e, std::string context = {}, int sys_errno = 0) {
  return std::unexpected(Error(e, std::move(context), sys_errno));
}
inline std::unexpected<Error> fail(Error e) { return std::unexpected(std::move(e)); }
/// The current errno as an Error; take it at once, before anything else can change errno.
inline std::unexpected<Error> fail_errno(std::string_view context, int value = errno) {
  return std::unexpected(Error::from_errno(value, std::string(context)));
}

}  // namespace pen

#define PEN_CONCAT_INNER(a, b) a##b
#define PEN_CONCAT(a, b) PEN_CONCAT_INNER(a, b)
/// PEN_TRY(expr): in a plain function returning Result, hand an error on. PEN_TRY_ASSIGN(auto x, expr) keeps the value.
#define PEN_TRY(expr)                                                                                             \
  do {                                                                                                            \
    if (auto pen_try_result = (expr); !pen_try_result) return std::unexpected(std::move(pen_try_result).error()); \
  } while (0)
#define PEN_TRY_ASSIGN(decl, expr) PEN_TRY_ASSIGN_INNER(PEN_CONCAT(pen_try_, __LINE__), decl, expr)
#define PEN_TRY_ASSIGN_INNER(tmp, decl, expr)               \
  auto tmp = (expr);                                        \
  if (!tmp) return std::unexpected(std::move(tmp).error()); \
  decl = *std::move(tmp)
/// The same inside a coroutine.
#define PEN_CO_TRY(expr)                                                                                             \
  do {                                                                                                               \
    if (auto pen_try_result = (expr); !pen_try_result) co_return std::unexpected(std::move(pen_try_result).error()); \
  } while (0)
#define PEN_CO_TRY_ASSIGN(decl, expr) PEN_CO_TRY_ASSIGN_INNER(PEN_CONCAT(pen_try_, __LINE__), decl, expr)
#define PEN_CO_TRY_ASSIGN_INNER(tmp, decl, expr)               \
  auto tmp = (expr);                                           \
  if (!tmp) co_return std::unexpected(std::move(tmp).error()); \
  decl = *std::move(tmp)
