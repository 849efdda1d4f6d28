"""Tests of the Dapr host on real daprd, placement and scheduler.

Not called ``dapr``: the SDK is a namespace package, and a folder of that name on the path would become part of it.
"""
