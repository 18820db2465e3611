#include "smtpd/reply_footer.h"

#include "lib/meaning/smtpd/reply_text.h"
#include "smtpd/access.h"

namespace pen::smtpd {

std::vector<std::string> with_footer(std::string_view reply, std::string_view footer, const config::Lookup& names,
                                     std::string_view filter) {
  const std::string own(reply);
  std::vector<std::string> lines = {own};
  std::string_view rest = reply.substr(4);
  const std::string dsn = take_dsn(rest);
  std::string code = own.substr(0, 3) + "-";
  bool same_line = footer.starts_with("\\c");
  if (same_line) footer.remove_prefix(2);
  for (;;) {
    const auto end = footer.find("\\n");
    const auto line = expand_reply(footer.substr(0, end), names, filter);
    if (!line.error.empty()) return {own};
    if (same_line)
      lines.back() += line.text;
    else
      lines.push_back(code + (dsn.empty() ? "" : dsn + " ") + line.text);
    same_line = false;
    if (end == std::string_view::npos) break;
    footer.remove_prefix(end + 2);
  }
  for (auto& line : lines) line[3] = '-';
  lines.back()[3] = ' ';
  return lines;
}

}  // namespace pen::smtpd
