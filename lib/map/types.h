#pragma once
/// The makers of each table type; only map.cc calls them. `name` is what follows "type:".
#include <memory>
#include <string>

#include "lib/map/map.h"

namespace pen::map {

std::shared_ptr<Map> make_lmdb(std::string spec, const std::string& name,
                               const OpenOptions& options);
std::shared_ptr<Map> make_texthash(std::string spec, const std::string& name,
                                   const OpenOptions& options);
Result<std::shared_ptr<Map>> make_inline(std::string spec, const std::string& name,
                                         const OpenOptions& options);
std::shared_ptr<Map> make_static(std::string spec, const std::string& name);
std::shared_ptr<Map> make_fail(std::string spec);
Result<std::shared_ptr<Map>> make_unix(std::string spec, const std::string& name);
std::shared_ptr<Map> make_cidr(std::string spec, const std::string& name,
                               const OpenOptions& options);
std::shared_ptr<Map> make_regexp(std::string spec, const std::string& name,
                                 const OpenOptions& options);
std::shared_ptr<Map> make_pcre(std::string spec, const std::string& name,
                               const OpenOptions& options);
/// A table of a type that is not there: every look-up gives the error.
std::shared_ptr<Map> make_broken(std::string spec, Error why);

}  // namespace pen::map
