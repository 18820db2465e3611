#include "penapi/tokens.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/fd.h"
#include "lib/base/text.h"
#include "lib/config/problem.h"

namespace pen::api {
namespace {

constexpr std::size_t kShortest = 16;
constexpr std::size_t kMaxFile = 64 * 1024;

std::unexpected<Error> wrong(const std::string& path, const std::string& what) {
  return fail(config::ConfigError::bad_value, "penapi_token_file: " + path + ": " + what);
}

/// Every byte of both is looked at, as often as the longer one has bytes.
bool same(std::string_view given, std::string_view token) {
  unsigned difference = given.size() == token.size() ? 0U : 1U;
  for (std::size_t i = 0; i < given.size(); ++i)
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(token[i % token.size()]);
  return difference == 0;
}

}  // namespace

Result<Tokens> Tokens::read(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno("penapi_token_file: " + path);
  struct stat facts{};
  if (::fstat(fd.get(), &facts) != 0) return fail_errno("penapi_token_file: " + path);
  if ((facts.st_mode & 0007) != 0) return wrong(path, "others may read or write it: chmod o-rwx");
  std::string text(kMaxFile + 1, '\0');
  const ssize_t n = ::read(fd.get(), text.data(), text.size());
  if (n < 0) return fail_errno("penapi_token_file: " + path);
  if (static_cast<std::size_t>(n) > kMaxFile) return wrong(path, "larger than 64 KiB");
  text.resize(static_cast<std::size_t>(n));
  return parse(text, path);
}

Result<Tokens> Tokens::parse(std::string_view text, const std::string& path) {
  Tokens out;
  for (int number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.starts_with('#')) continue;
    if (line.size() < kShortest)
      return wrong(path, fmt::format("line {}: shorter than {} characters", number, kShortest));
    if (!std::ranges::all_of(line, [](char c) { return c > 32 && c < 127; }))
      return wrong(path, fmt::format("line {}: a character that is no visible ASCII", number));
    out.tokens_.push_back({std::string(line), number});
  }
  return out;
}

std::optional<int> Tokens::permit(std::string_view authorization) const {
  constexpr std::string_view kScheme = "Bearer ";
  if (!istarts_with(authorization, kScheme)) return std::nullopt;
  const std::string_view given = trim(authorization.substr(kScheme.size()));
  int found = 0;
  for (const Token& token : tokens_)
    if (same(given, token.text)) found = token.line;
  return found == 0 ? std::nullopt : std::optional(found);
}

}  // namespace pen::api
