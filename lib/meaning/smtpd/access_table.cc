#include "lib/meaning/smtpd/access_table.h"

#include "lib/base/text.h"

namespace pen::smtpd {
namespace {

std::string_view inside(std::string_view text) { return trim(text.substr(1, text.size() - 2)); }
bool braced(std::string_view text) { return text.size() >= 2 && text.front() == '{' && text.back() == '}'; }

/// "search_order = cert_fingerprint, pubkey_fingerprint"; empty: done, else what is wrong.
std::string read_order(std::string_view text, std::vector<Print>& order) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || trim(text.substr(0, equals)) != "search_order")
    return "expected { search_order = name ... }, not \"" + printable(text, 60) + "\"";
  order.clear();
  for (const std::string_view name : split(text.substr(equals + 1))) {
    if (name == "cert_fingerprint")
      order.push_back(Print::certificate);
    else if (name == "pubkey_fingerprint")
      order.push_back(Print::key);
    else
      return "search_order: \"" + printable(name, 60) + "\" is neither cert_fingerprint nor pubkey_fingerprint";
  }
  return {};
}

}  // namespace

std::expected<AccessTable, std::string> read_access_table(std::string_view text) {
  AccessTable access;
  if (!text.starts_with('{')) {
    access.table = text;
    return access;
  }
  if (!braced(text)) return std::unexpected("no } ends \"" + printable(text, 60) + "\"");
  for (const std::string& part : split_list(inside(text))) {
    if (access.table.empty()) {
      access.table = part;
    } else if (!braced(part)) {
      return std::unexpected("expected { name = value } behind the table, not \"" + printable(part, 60) + "\"");
    } else if (std::string why = read_order(inside(part), access.order); !why.empty()) {
      return std::unexpected(std::move(why));
    }
  }
  if (access.table.empty()) return std::unexpected("no table is between { and }");
  return access;
}

}  // namespace pen::smtpd
