#include "lib/trust/sasl/token_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/digest/digest.h"
#include "lib/base/fd.h"
#include "lib/base/text.h"
#include "lib/trust/sasl/properties.h"

namespace pen::sasl {
namespace {

constexpr std::size_t kMaxFile = 4 * 1024 * 1024;
constexpr std::size_t kHashBytes = 32;

std::unexpected<Error> wrong(std::string what) { return fail(SaslError::bad_setting, std::move(what)); }

int hex(char c) {
  if (ascii_digit(c)) return c - '0';
  const char low = ascii_lower(c);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/// Empty: it is no SHA-256 in hex.
std::string hash_of(std::string_view text) {
  std::string out;
  if (text.size() != 2 * kHashBytes) return out;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = hex(text[i]), low = hex(text[i + 1]);
    if (high < 0 || low < 0) return {};
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

bool is_login(std::string_view text) {
  return text.size() <= 255 && std::ranges::all_of(text, [](char c) { return c > ' ' && c != 127; });
}

bool is_sender(std::string_view text) { return text == "<>" || (text.contains('@') && !text.ends_with('@')); }

}  // namespace

Result<TokenFile> TokenFile::read(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno(path);
  struct stat facts{};
  if (::fstat(fd.get(), &facts) != 0) return fail_errno(path);
  if ((facts.st_mode & 0007) != 0) return wrong(path + ": others may read or write it: chmod o-rwx");
  std::string text;
  for (char part[65536];;) {
    const ssize_t n = ::read(fd.get(), part, sizeof part);
    if (n < 0) return fail_errno(path);
    if (n == 0) break;
    text.append(part, static_cast<std::size_t>(n));
    if (text.size() > kMaxFile) return wrong(path + ": larger than 4 MiB");
  }
  auto parsed = parse(text);
  if (!parsed) return fail(std::move(parsed).error().within(path));
  return parsed;
}

Result<TokenFile> TokenFile::parse(std::string_view text) {
  TokenFile out;
  for (int number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.starts_with('#')) continue;
    const auto words = split(line, " \t");
    Entry entry{.login = std::string(words[0]), .senders = nullptr, .hash = {}};
    if (!is_login(entry.login))
      return wrong(fmt::format("line {}: the login has a control character or is too long", number));
    if (words.size() > 1) entry.hash = hash_of(words[1]);
    if (entry.hash.empty()) return wrong(fmt::format("line {}: no SHA-256 of 64 hex digits behind the login", number));
    if (words.size() > 2) {
      Senders senders;
      for (std::size_t i = 2; i < words.size(); ++i) {
        if (!is_sender(words[i]))
          return wrong(fmt::format("line {}: no address, @domain or <>: {}", number, printable(words[i], 100)));
        senders.emplace_back(words[i]);
      }
      entry.senders = std::make_shared<const Senders>(std::move(senders));
    }
    out.entries_.push_back(std::move(entry));
  }
  return out;
}

const TokenFile::Entry* TokenFile::find(std::string_view token) const {
  if (token.size() < kShortest || token.size() > kLongest) return nullptr;
  const std::string hash = digest::hash(digest::Digest::sha256, token);
  if (hash.size() != kHashBytes) return nullptr;
  const Entry* found = nullptr;
  for (const Entry& entry : entries_)
    if (digest::equal_secrets(hash, entry.hash)) found = &entry;
  return found;
}

}  // namespace pen::sasl
