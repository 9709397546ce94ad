"""Measurements that come with the package: `forebay bench objects`."""
