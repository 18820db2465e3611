#include "lib/trust/srs/secrets.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/text.h"

namespace pen::srs {
namespace {

constexpr std::size_t kMostBytes = 64U << 10, kMostSecrets = 100, kLongest = 1000;

Result<std::string> content_of(int fd) {
  std::string text;
  for (;;) {
    char part[4096];
    const auto n = ::read(fd, part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno({});
    if (n == 0) return text;
    text.append(part, static_cast<std::size_t>(n));
    if (text.size() > kMostBytes) return fail(SecretsError::too_large);
  }
}

}  // namespace

std::string_view describe(SecretsError e) {
  switch (e) {
    case SecretsError::empty:
      return "no secret in the file";
    case SecretsError::readable:
      return "every user can read it: chmod o-rwx";
    case SecretsError::writable:
      return "its group can change it: chmod g-w";
    case SecretsError::not_a_file:
      return "not a file";
    case SecretsError::too_large:
      return "larger than a file of secrets may be";
  }
  return "unknown";
}

Result<std::vector<std::string>> read_secrets(const std::string& path) {
  const auto failed = [&path](Error error) { return fail(std::move(error).within(path)); };
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return failed(Error::from_errno(errno));
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return failed(Error::from_errno(errno));
  if (!S_ISREG(st.st_mode)) return failed(SecretsError::not_a_file);
  if ((st.st_mode & S_IRWXO) != 0) return failed(SecretsError::readable);
  if ((st.st_mode & S_IWGRP) != 0) return failed(SecretsError::writable);
  const auto text = content_of(fd.get());
  if (!text) return failed(text.error());
  std::vector<std::string> secrets;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    const auto line = trim(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.empty()) continue;
    if (line.size() > kLongest || secrets.size() == kMostSecrets) return failed(SecretsError::too_large);
    secrets.emplace_back(line);
  }
  if (secrets.empty()) return failed(SecretsError::empty);
  return secrets;
}

}  // namespace pen::srs
