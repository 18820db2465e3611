#pragma once
/// Leaves DNS records out that a table says to ignore: smtp_dns_reply_filter and its like.
///
/// Use:     PEN_TRY_ASSIGN(auto filter, DnsFilter::open("smtp_dns_reply_filter", tables, options));
///          if (!filter.empty()) co_await filter.apply(asker, answer);
/// Key:     the record as text, "example.org. 3600 IN MX 10 mx.example.org.": owner, time to live, class, type, the
///          preference of MX records, and the data. Names end in a dot.
/// Value:   IGNORE, in any case. Other values, and tables that cannot be read, make the whole answer temporary: a
///          record that was to be left out must not be used.
/// Rules:   an answer of which nothing is left is temporary too, so that mail waits until the table is right.
/// Thread:  the loop's.
/// Source:  Postfix smtp_dns_reply_filter.
#include <string>
#include <string_view>
#include <vector>

#include "lib/map/ask.h"
#include "lib/net/dns.h"

namespace pen::resolve {

class DnsFilter {
 public:
  DnsFilter() = default;
  /// setting: its name, for messages.
  static Result<DnsFilter> open(std::string setting, std::string_view tables, const map::OpenOptions& options);

  bool empty() const { return maps_.empty(); }
  std::vector<Error> problems() const { return maps_.problems(); }
  /// Filters an answer; nothing but a found one can change.
  async::Task<void> apply(map::Asker& tables, net::DnsAnswer& answer) const;

 private:
  std::string setting_;
  map::MapList maps_;
};

/// The text of a record that tables are asked for.
std::string record_text(const net::DnsRecord& record);

}  // namespace pen::resolve
