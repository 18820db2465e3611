#pragma once
/// A DNS for tests: a table of records, and of questions without an answer.
///
/// Use:     Zone zone; zone.add("example.org", "TXT", "v=spf1 -all");  spf::check(zone.records(), …)
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/async/loop.h"
#include "lib/base/text.h"
#include "lib/net/dns.h"

namespace pen::net::testing {

class Zone {
 public:
  std::vector<std::string> asked;  // "TXT example.org"

  void add(const std::string& name, const std::string& type, std::string data) {
    auto& node = nodes_[to_lower(name)];
    if (data == "!TIMEOUT")
      node.silent.insert(type);
    else
      node.records[type].push_back(std::move(data));
  }
  auto records() {
    return [this](std::string name, RecordType type, async::Until /*until*/) { return answer(std::move(name), type); };
  }

 private:
  struct Node {
    std::map<std::string, std::vector<std::string>> records;
    std::set<std::string> silent;  // types; "*": those without a record
  };
  static std::string word(RecordType type) {
    switch (type) {
      case RecordType::a:
        return "A";
      case RecordType::aaaa:
        return "AAAA";
      case RecordType::mx:
        return "MX";
      case RecordType::ptr:
        return "PTR";
      default:
        return "TXT";
    }
  }
  async::Task<DnsAnswer> answer(std::string name, RecordType type) {
    DnsAnswer out;
    const std::string wanted = word(type);
    asked.push_back(wanted + " " + name);
    for (int aliases = 0;; ++aliases) {
      const auto node = nodes_.find(to_lower(name));
      if (node == nodes_.end()) {
        out.outcome = DnsOutcome::no_domain;
        co_return out;
      }
      const auto& [records, silent] = node->second;
      const auto found = records.find(wanted);
      if (silent.contains(wanted) || (silent.contains("*") && found == records.end())) co_return out;
      const auto alias = records.find("CNAME");
      if (found == records.end() && alias != records.end() && aliases < 8) {
        name = alias->second.front();
        continue;
      }
      out.outcome = found == records.end() ? DnsOutcome::no_data : DnsOutcome::found;
      if (found == records.end()) co_return out;
      for (const auto& data : found->second) {
        DnsRecord record;
        record.type = type;
        record.data = type == RecordType::mx ? data.substr(data.find(' ') + 1) : data;
        out.records.push_back(std::move(record));
      }
      co_return out;
    }
  }
  std::map<std::string, Node> nodes_;
};

}  // namespace pen::net::testing
