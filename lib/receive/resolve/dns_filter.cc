#include "lib/receive/resolve/dns_filter.h"

#include "lib/base/text.h"

namespace pen::resolve {
namespace {

using net::RecordType;

std::string_view type_name(RecordType type) {
  switch (type) {
    case RecordType::a:
      return "A";
    case RecordType::ns:
      return "NS";
    case RecordType::cname:
      return "CNAME";
    case RecordType::soa:
      return "SOA";
    case RecordType::ptr:
      return "PTR";
    case RecordType::mx:
      return "MX";
    case RecordType::txt:
      return "TXT";
    case RecordType::aaaa:
      return "AAAA";
    case RecordType::srv:
      return "SRV";
    case RecordType::tlsa:
      return "TLSA";
  }
  return "unknown";
}

bool holds_name(RecordType type) {
  return type == RecordType::ns || type == RecordType::cname || type == RecordType::ptr || type == RecordType::mx ||
         type == RecordType::srv;
}

void refuse(net::DnsAnswer& answer, std::string why) {
  answer.outcome = net::DnsOutcome::temporary;
  answer.records.clear();
  answer.text = std::move(why);
}

}  // namespace

std::string record_text(const net::DnsRecord& record) {
  std::string text =
      record.name + ". " + std::to_string(record.ttl.count()) + " IN " + std::string(type_name(record.type)) + " ";
  if (record.type == RecordType::mx || record.type == RecordType::srv) text += std::to_string(record.preference) + " ";
  if (record.type == RecordType::srv) text += std::to_string(record.weight) + " " + std::to_string(record.port) + " ";
  text += record.data;
  if (holds_name(record.type)) text += ".";
  return text;
}

Result<DnsFilter> DnsFilter::open(std::string setting, std::string_view tables, const map::OpenOptions& options) {
  DnsFilter filter;
  auto maps = map::MapList::open(tables, options.of(setting));
  if (!maps) return fail(std::move(maps).error().within(setting));
  filter.maps_ = *std::move(maps);
  filter.setting_ = std::move(setting);
  return filter;
}

async::Task<void> DnsFilter::apply(map::Asker& tables, net::DnsAnswer& answer) const {
  if (maps_.empty() || answer.outcome != net::DnsOutcome::found) co_return;
  std::vector<std::string> texts;
  for (const auto& record : answer.records) texts.push_back(record_text(record));
  // All questions to a table server leave at once: an answer that is pending does not keep the others back.
  const std::vector<map::Value> found = co_await tables.ask([this, &texts] {
    std::vector<map::Value> values;
    for (const auto& text : texts) values.push_back(maps_.lookup(text));
    return values;
  });
  std::vector<net::DnsRecord> kept;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) co_return refuse(answer, setting_ + ": " + found[i].error().message());
    if (!*found[i])
      kept.push_back(std::move(answer.records[i]));
    else if (!iequals(trim(**found[i]), "ignore"))
      co_return refuse(answer, setting_ + ": unknown action " + printable(**found[i], 100));
  }
  if (kept.empty()) co_return refuse(answer, setting_ + " leaves out all records");
  answer.records = std::move(kept);
}

}  // namespace pen::resolve
