"""The public interface of an instance: actor interface, requests and replies."""
